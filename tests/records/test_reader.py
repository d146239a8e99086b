import json
from dataclasses import asdict
from pathlib import Path

import pytest

from allotment.records import (
    RecordError,
    describe_environment,
    open_runs,
    read_run,
    read_runs,
    read_weights,
)
from allotment.settings import TrainingSettings
from tests.records.made_up import a_header, an_entry, an_outcome, flip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with three completed runs and one that was stopped."""
    headers = [a_header(seed=seed, method=method) for method in "ab" for seed in range(2)]
    writers = open_runs(tmp_path, headers, describe_environment("cpu"))
    for writer in writers[:3]:
        writer.add(an_entry())
        writer.close(an_outcome())
    return tmp_path


def test_completed_runs_come_in_name_order(root: Path) -> None:
    names = [(record.header.method, record.header.seed) for record in read_runs(root)]
    assert names == [("a", 0), ("a", 1), ("b", 0)]


def test_the_folder_of_a_run_is_a_root_too(root: Path) -> None:
    assert len(read_runs(root / "a" / "seed-001")) == 1


def test_a_root_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"a folder that exists\. Found `.*nowhere`"):
        read_runs(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name",
    ["settings.json", "environment.json", "metrics.jsonl", "allocations.npz", "summary.json"],
)
@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"rounds": "three"}', b"\xff\xfe"])
def test_damage_is_one_sentence_with_the_path(root: Path, name: str, content: bytes) -> None:
    if name == "metrics.jsonl" and not content:
        return  # a run may fail before its first point
    path = root / "a" / "seed-000" / name
    path.write_bytes(content)
    with pytest.raises(RecordError, match=name) as caught:
        read_run(path.parent)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("metrics.jsonl", b"0.4", b"0.9"),
        ("summary.json", b"0.31", b"0.39"),
        ("summary.json", b"3000", b"3001"),
    ],
)
def test_a_digit_that_changed_is_seen(root: Path, name: str, before: bytes, after: bytes) -> None:
    path = root / "a" / "seed-000" / name
    path.write_bytes(path.read_bytes().replace(before, after, 1))
    with pytest.raises(RecordError, match=rf"{name}` damaged: ValueError, it has another hash"):
        read_run(path.parent)


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.99])
def test_a_bit_of_the_allocations_that_flipped_is_seen(root: Path, place: float) -> None:
    path = root / "a" / "seed-000" / "allocations.npz"
    flip(path, place)
    with pytest.raises(RecordError, match=r"allocations.npz` damaged: .* another hash"):
        read_run(path.parent)


def test_records_of_older_versions_have_no_hashes(root: Path) -> None:
    folder = root / "a" / "seed-000"
    expected = read_run(folder)
    summary = json.loads((folder / "summary.json").read_text())
    del summary["sha256"]
    (folder / "summary.json").write_text(json.dumps(summary))
    line = json.loads((folder / "metrics.jsonl").read_text())
    del line["crc32"]
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    assert read_weights(folder) == {}
    assert read_run(folder).losses.tolist() == expected.losses.tolist()


def test_damaged_weights_are_one_sentence_with_the_path(root: Path) -> None:
    path = root / "a" / "seed-000" / "weights.safetensors"
    path.write_bytes(b"half")
    with pytest.raises(RecordError, match=r"weights\.safetensors"):
        read_weights(path.parent)


def test_fields_of_a_later_version_are_left_out(root: Path) -> None:
    path = root / "a" / "seed-000" / "settings.json"
    path.write_text(path.read_text().replace("{", '{"of_tomorrow": 1,', 1))
    assert read_run(path.parent).header == a_header(method="a")


def test_what_an_older_record_lacks_is_read_from_what_it_has(root: Path) -> None:
    path = root / "a" / "seed-000" / "settings.json"
    value = json.loads(path.read_text())
    del value["component_kinds"], value["is_binary"]
    value["component_names"] = ["conv3x3 A", "conv3x3 12", "max pool", "B"]
    flat = {"batch_size": 64, "logit_learning_rate": 0.5, "budget": 0.3, "average": 0.9}
    path.write_text(json.dumps(value | {"settings": {"training": flat | {"precision": "tf32"}}}))
    header = read_run(path.parent).header
    assert header.component_kinds == ("conv3x3", "conv3x3", "max pool", "")
    assert header.is_binary
    expected = TrainingSettings(batch_size=64).changed(
        allocation_learning_rate=0.5, budget=0.3, ema_decay=0.9, mixed_precision="tf32"
    )
    assert header.settings == {"training": asdict(expected)}
