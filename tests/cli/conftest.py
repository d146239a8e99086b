"""A command line that trains little, in a folder of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest import CaptureFixture, MonkeyPatch, fixture

from allotment.cli import main
from allotment.paper import EXPERIMENTS
from tests.experiments.toy import toy


@dataclass(frozen=True)
class Answer:
    """What a command left: its status, and what it said on either stream."""

    status: int
    out: str
    error: str


Command = Callable[..., Answer]


@fixture
def allotment(tmp_path: Path, monkeypatch: MonkeyPatch, capsys: CaptureFixture[str]) -> Command:
    """Runs one command in an empty folder, with every experiment cut down to 20 rounds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALLOTMENT_DATA", str(tmp_path / "no-data"))
    monkeypatch.setenv("COLUMNS", "200")  # tables stay in one piece
    for name in EXPERIMENTS:
        monkeypatch.setitem(EXPERIMENTS, name, toy(name, rounds=20))

    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        try:
            status = main(arguments)
        except SystemExit as left:  # the parser's own way out
            status = int(left.code or 0)
        said = capsys.readouterr()
        return Answer(status, said.out, said.err)

    return run
