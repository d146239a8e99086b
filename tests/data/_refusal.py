"""The property that every fault shares: one sentence, and a folder that is as it was."""

from pathlib import Path

from pytest import raises

from allotment.data import DataError, DataSet, prepare


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Returns every path under ``folder`` with its content; None stands for a folder."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


def assert_refused(dataset: DataSet, folder: Path, match: str) -> None:
    """Asserts that ``prepare`` says what is wrong, in one line, and changes nothing on disk."""
    before = snapshot(folder)
    with raises(DataError, match=match) as refusal:
        prepare(dataset, folder)
    assert "\n" not in str(refusal.value), refusal.value
    assert snapshot(folder) == before
