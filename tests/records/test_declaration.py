"""What a sweep keeps of its experiment beside the runs."""

import hashlib
from pathlib import Path

from pytest import mark, raises

from allotment.records import (
    RecordError,
    find_copy,
    read_declarations,
    write_copy,
    write_declaration,
)


def test_experiments_of_one_folder_are_kept_beside_each_other(tmp_path: Path) -> None:
    write_declaration(tmp_path / "out", "a", {"title": "A"})
    write_declaration(tmp_path / "out", "b", {"title": "B"})
    write_declaration(tmp_path / "out", "a", {"title": "again"})
    found = read_declarations(tmp_path / "out")
    assert found == {"a": {"title": "again"}, "b": {"title": "B"}}


@mark.parametrize("folder", [".", "runs", "runs/out", "runs/out/method", "runs/out/c/m/seed-0"])
def test_they_are_found_above_and_below(folder: str, tmp_path: Path) -> None:
    (tmp_path / "runs/out/c/m/seed-0").mkdir(parents=True)
    (tmp_path / "runs/out/method").mkdir()
    write_declaration(tmp_path / "runs/out", "a", {"title": "A"})
    assert read_declarations(tmp_path / folder) == {"a": {"title": "A"}}


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "experiments.json").write_text("{")
    with raises(RecordError, match=r"experiments\.json` damaged"):
        read_declarations(tmp_path)


def test_copies_are_numbered_and_found_by_their_content(tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = [write_copy(out, content).name for content in (b"1", b"2", b"1", b"3")]
    assert names == ["experiment.py", "experiment-2.py", "experiment.py", "experiment-3.py"]
    assert find_copy(out, hashlib.sha256(b"2").hexdigest()) == out / "experiment-2.py"
    assert find_copy(out, "") is None and find_copy(tmp_path / "nowhere", "") is None
