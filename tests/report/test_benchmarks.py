from dataclasses import replace
from pathlib import Path

from pytest import approx, mark, raises

from allotment.records import (
    Floor,
    ProfilePart,
    ProfileRecord,
    RecordError,
    SpeedRecord,
    Timing,
    read_speed,
)
from allotment.report import floor_lines, profile_lines, speed_summary, speed_table, timing_table
from tests.records.made_up import ENVIRONMENT

RECORD = SpeedRecord(
    benchmark="two_pairs",
    command="python benchmarks/speed.py two_pairs",
    processor="a made-up processor",
    environment=ENVIRONMENT,
    timings=(
        Timing(label="plain", n_runs=1, warm_up_seconds=1.0, milliseconds=(2.0, 4.0, 3.0)),
        Timing(
            label="ours",
            n_runs=20,
            precision="tf32",
            warm_up_seconds=2.5,
            peak_gibibytes=1.25,
            milliseconds=(0.25, 0.4, 0.5),
        ),
    ),
    floors=(
        Floor(
            precision="tf32",
            gigaflops=2.0,
            gigabytes=0.03,
            gigaflops_per_second=400_000.0,
            gigabytes_per_second=4_000.0,
        ),
    ),
)


def test_ratios_are_taken_segment_by_segment() -> None:
    assert RECORD.ratios(RECORD.timings[1]) == approx([8.0, 10.0, 6.0])


def test_the_table_gives_medians_and_the_ends() -> None:
    assert timing_table(RECORD).rows == (
        ("plain", "float32", "3.00 (2.00 to 4.00)", "–", "–", "1.0 s"),
        ("ours", "tf32", "0.40 (0.25 to 0.50)", "8.0 (6.0 to 10.0)", "1.2 GiB", "2.5 s"),
    )


def test_a_floor_is_work_over_rate() -> None:
    floor = RECORD.floors[0]
    assert floor.arithmetic == approx(0.005)
    assert floor.memory == approx(0.0075)
    assert floor_lines(RECORD) == [
        "Floor in tf32: 2 GFLOP at 400 TFLOP/s are 0.005 ms, and 30 MB at 4 TB/s are 0.0075 ms."
    ]


def test_a_record_survives_its_file_and_says_where_it_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "two_pairs.json"
    path.write_text(RECORD.to_json())
    assert read_speed(path) == RECORD
    text = speed_table(tmp_path)
    assert "**two_pairs**: `python benchmarks/speed.py two_pairs`" in text
    assert "a made-up processor, 2 threads" in text
    assert "Commit: 0123456 (torch 2.13.0" in text
    assert "| ours | tf32 | 0.40 (0.25 to 0.50) | 8.0 (6.0 to 10.0) | 1.2 GiB | 2.5 s |" in text


def test_a_profile_says_what_runs_at_once_and_when_nothing_does() -> None:
    record = ProfileRecord(
        command="python benchmarks/profiled.py omniglot",
        label="allotment, 4 runs together",
        precision="bfloat16",
        environment=ENVIRONMENT,
        milliseconds=2.5,
        profiled=3.0,
        busy=2.0,
        parts=(
            ProfilePart(kind="convolutions", milliseconds=3.0, n_calls=2_000.0),
            ProfilePart(kind="pools", milliseconds=1.0, n_calls=64.4),
        ),
    )
    lines = profile_lines(record)
    assert "| convolutions | 3 | 75 % | 2,000 |" in lines and "| pools | 1 | 25 % | 64 |" in lines
    assert "operations run in 2; added up they take 4 ms, since several run at once;" in lines[-1]
    assert "nothing runs in 1. Without the profiler it is 2.5 ms." in lines[-1]


def test_no_record_is_said_so(tmp_path: Path) -> None:
    assert speed_table(tmp_path / "nothing") == "Not measured yet."
    assert speed_summary(tmp_path / "nothing") == "Not measured yet."


def test_the_summary_has_a_line_for_each_network_and_device(tmp_path: Path) -> None:
    (tmp_path / "two_pairs.json").write_text(RECORD.to_json())
    *_, line = speed_summary(tmp_path).splitlines()
    n_runs = RECORD.timings[1].n_runs
    faster = f"8 times as fast with {n_runs} runs (tf32)"
    assert line == f"| two_pairs | a made-up device | 3 (float32) | – | {faster} |"
    (tmp_path / "again.json").write_text(RECORD.to_json())
    assert len(speed_summary(tmp_path).splitlines()) == 3  # said once


@mark.parametrize("text", ["", "[]", "{}", '{"benchmark": "x"}'])
def test_a_damaged_record_is_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with raises(RecordError, match=r"record of speed should be complete\. Found `.*bad\.json`"):
        speed_table(tmp_path)


def test_a_joint_step_is_explained_where_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "two_pairs.json"
    path.write_text(RECORD.to_json())
    assert "A joint step" not in speed_table(tmp_path)
    joint = replace(RECORD.timings[1], is_joint=True)
    path.write_text(replace(RECORD, timings=(RECORD.timings[0], joint)).to_json())
    assert "A joint step is one optimizer step on a batch of every task" in speed_table(tmp_path)
