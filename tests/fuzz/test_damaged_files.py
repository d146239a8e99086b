"""Damaged files: whatever is wrong with a record, one sentence says which file it is."""

import random
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from pytest import MonkeyPatch, TempPathFactory, fixture, mark

from allotment.cli import main
from allotment.paper import EXPERIMENTS
from tests.experiments.toy import toy
from tests.fuzz.damage import damage

N_CASES = 120
N_SLOW = 2_000


@fixture(scope="module")
def made(tmp_path_factory: TempPathFactory) -> Path:
    """A folder with a finished sweep, one that was stopped, and kept results."""
    folder = tmp_path_factory.mktemp("made")
    with MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "two_pairs", toy("two_pairs", rounds=20))
        run = ["run", "two_pairs", "--runs", "1", "--method", "gumbel", "--device", "cpu"]
        assert told([*run, "--out", str(folder / "finished")])[0] == 0
        assert told([*run, "--out", str(folder / "stopped"), "--minutes", "1e-9"])[0] == 0
        assert told(["keep", str(folder / "finished"), "--results", str(folder / "kept")])[0] == 0
    return folder


def told(arguments: list[str]) -> tuple[int, str]:
    """Runs a command; returns its status and what it said on the error stream."""
    out, error = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        status = main(arguments)
    return status, error.getvalue()


def commands(folder: Path, name: str, draws: bool) -> list[list[str]]:
    """Returns the commands that read a part of what was made."""
    if name == "stopped":
        return [["run", "two_pairs", "--resume", str(folder), "--device", "cpu"]]
    if name == "kept":
        return [["keep", str(folder.parent / "finished"), "--results", str(folder)]]
    page = [["report", str(folder), "-o", str(folder.parent / "page.html")]] if draws else []
    return [["keep", str(folder), "--results", str(folder.parent / "new")], *page]


def check_case(number: int, made: Path, folder: Path, *, draws: bool) -> None:
    """Damages one file and asserts that each command ends well or with one sentence."""
    chance = random.Random(number)
    shutil.copytree(made, folder)
    part = chance.choice(["finished", "finished", "stopped", "kept"])
    paths = sorted(path for path in (folder / part).rglob("*") if path.is_file())
    path = chance.choice(paths)
    how = damage(path, chance)
    for command in commands(folder / part, part, draws):
        try:
            status, error = told(command)
        except Exception as raised:
            raise AssertionError(f"case {number}, {part}, {how}, {command[0]}") from raised
        told_well = error.startswith("allotment: ") and error.count("\n") == 1
        # An option that could have been typed is refused as if it had been.
        names_it = path.name == "launch.json" or path.parent.name in error
        assert status == 0 or (told_well and names_it), (number, how, command[0], error)
        if status:
            break
    shutil.rmtree(folder)


@fixture
def check(made: Path, tmp_path: Path, monkeypatch: MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setitem(EXPERIMENTS, "two_pairs", toy("two_pairs", rounds=20))

    def run(numbers: range, *, draws: bool) -> None:
        for number in numbers:
            check_case(number, made, tmp_path / "case", draws=draws)

    return run


def test_a_damaged_file_is_read_or_named(check: Callable[..., None]) -> None:
    check(range(N_CASES), draws=False)


@mark.slow
@mark.parametrize("first", range(0, N_SLOW, 100))
def test_many_damaged_files_are_read_or_named(first: int, check: Callable[..., None]) -> None:
    check(range(first, first + 100), draws=True)
