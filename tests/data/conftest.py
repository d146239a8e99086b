"""Mirrors on this machine, and a data folder with something of the user's in it."""

from collections.abc import Iterator
from pathlib import Path

from pytest import MonkeyPatch, fixture

from tests.data._mirror import Mirror, running_mirror


@fixture
def mirror(monkeypatch: MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running_mirror() as running:
        yield running


@fixture
def second_mirror() -> Iterator[Mirror]:
    with running_mirror() as running:
        yield running


@fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    (path / "notes.txt").write_text("the user's own")
    return path
