from pathlib import Path

import pytest

from allotment.records import RecordError, open_runs, read_run, read_runs, read_weights
from tests.records.made_up import a_header, a_point, an_outcome


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with three completed runs and one that was stopped."""
    headers = [a_header(seed=seed, method=method) for method in "ab" for seed in range(2)]
    writers = open_runs(tmp_path, headers)
    for writer in writers[:3]:
        writer.add(a_point())
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


def test_damaged_weights_are_one_sentence_with_the_path(root: Path) -> None:
    path = root / "a" / "seed-000" / "weights.safetensors"
    path.write_bytes(b"half")
    with pytest.raises(RecordError, match=r"weights\.safetensors"):
        read_weights(path.parent)


def test_fields_of_a_later_version_are_left_out(root: Path) -> None:
    path = root / "a" / "seed-000" / "settings.json"
    path.write_text(path.read_text().replace("{", '{"of_tomorrow": 1,', 1))
    assert read_run(path.parent).header == a_header(method="a")
