"""How cost grows: what was measured, and what many devices would do by it."""

from dataclasses import replace
from pathlib import Path

from pytest import approx, raises

from allotment.records import (
    LargeRecord,
    LargeWay,
    RecordError,
    ScalingRecord,
    ScalingRow,
    read_large,
    read_scaling,
)
from allotment.report import large_table, scale_blocks
from tests.records.made_up import ENVIRONMENT

SIZES = (("tasks", 4, 0.5), ("tasks", 400, 0.51), ("runs", 30, 1.25))
GROWTH = ScalingRecord(
    command="python grow.py",
    description="a small network",
    processor="a made-up processor",
    environment=ENVIRONMENT,
    rows=tuple(ScalingRow(varied=v, number=n, milliseconds=ms) for v, n, ms in SIZES),
)
LARGE = LargeRecord(
    command="python large.py",
    description="a large network",
    environment=ENVIRONMENT,
    n_parameters=100_000_000,
    n_tasks=32,
    n_per_task=10_000,
    n_tokens=8_000,
    floor=20.0,
    ways=(
        LargeWay(name="Lightning, ddp", milliseconds=40.0, fastest=39.0, slowest=50.0, n_steps=9),
        LargeWay(name="Lightning, fsdp", error="RuntimeError: no"),
    ),
)


def kept(folder: Path, kind: str, text: str) -> Path:
    (folder / kind).mkdir(exist_ok=True)
    path = folder / kind / "some.json"
    path.write_text(text)
    return path


def test_growth_is_a_row_for_each_thing_varied(tmp_path: Path) -> None:
    path = kept(tmp_path, "scaling", GROWTH.to_json())
    assert read_scaling(path) == GROWTH
    text = scale_blocks(tmp_path)["growth"]
    assert "`python grow.py`, a small network" in text
    assert "| tasks | 0.5 (4), 0.51 (400) |" in text
    assert "| runs | 1.25 (30) |" in text
    rows = tuple(replace(row, mebibytes=1_000.0 * row.number) for row in GROWTH.rows)
    path.write_text(replace(GROWTH, rows=rows).to_json())
    text = scale_blocks(tmp_path)["growth"]
    assert "| 0.5 (4), 0.51 (400) | 4,000 (4), 400,000 (400) |" in text
    path.write_text("{}")
    with raises(RecordError, match="A record of scaling should be complete"):
        scale_blocks(tmp_path)


def test_a_large_network_has_tokens_a_second_and_its_share_of_the_floor(tmp_path: Path) -> None:
    path = kept(tmp_path, "large", LARGE.to_json())
    assert read_large(path).ways[0] == replace(LARGE.ways[0])
    table = large_table(LARGE)
    assert "| Lightning, ddp | 40.0 (39.0 to 50.0) | 200,000 |" in table
    assert "| 50 % |" in table
    assert "| Lightning, fsdp | failed: RuntimeError: no |" in table


def test_devices_share_the_work_and_sum_up_their_gradients(tmp_path: Path) -> None:
    kept(tmp_path, "large", LARGE.to_json())
    rows = [line.split(" | ") for line in scale_blocks(tmp_path)["devices"].splitlines()]
    one, eight = (next(row for row in rows if row[:2] == ["| 32", n]) for n in ("1", "8"))
    assert one[3:5] == ["0", "0.2"]
    reduction = 2 * 7 / 8 * 4 * 1e8 / 25e9 * 1e3  # a ring, float32, at 25 GB/s
    assert float(eight[3]) == approx(reduction, abs=0.5)
    assert float(eight[4]) == approx(8 * 8e-3 / (40 + reduction) * 1e3, rel=0.05)
    (many,) = (row for row in rows if row[:2] == ["| 10,000", "100"])
    assert float(many[2]) == approx((1e8 + 9_968 * 10_000) / 1e6, abs=0.5)


def test_what_was_not_measured_says_so(tmp_path: Path) -> None:
    assert set(scale_blocks(tmp_path).values()) == {"Not measured yet."}
    failed = replace(LARGE, ways=LARGE.ways[1:])
    kept(tmp_path, "large", failed.to_json())
    assert scale_blocks(tmp_path)["devices"] == "Not measured yet."
