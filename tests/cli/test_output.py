"""Output that gets lost, terminals that cannot show a letter, and names that would command them."""

import errno
import json
import os
import shutil
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

from pytest import CaptureFixture, MonkeyPatch, fixture, mark

from allotment.cli import main
from allotment.records import keep, read_runs
from tests.cli.conftest import Command
from tests.cli.processes import started
from tests.records.made_up import a_header, a_record

RUN = ("run", "two_pairs", "--runs", "1", "--method", "gumbel", "--out", "out")


class Lost(TextIOWrapper):
    """A stream that fails from its second write on."""

    def __init__(self, number: int) -> None:
        super().__init__(BytesIO(), encoding="utf-8")
        self.number, self.n_writes = number, 0

    def write(self, text: str) -> int:
        self.n_writes += 1
        if self.n_writes > 1:
            raise OSError(self.number, "no more")
        return len(text)


@mark.parametrize(("number", "status"), [(errno.EPIPE, 0), (errno.ENOSPC, 1), (errno.EIO, 1)])
def test_training_goes_on_where_its_output_is_lost(
    number: int, status: int, allotment: Command, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Lost(number))
    assert main(RUN) == status
    assert [run.finished for run in read_runs(Path("out"))] == [True]


def test_a_reader_that_leaves_does_not_stop_a_training(tmp_path: Path) -> None:
    process = started(tmp_path, *RUN, "--rounds", "100")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()  # as `| head -0` does
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 0
    assert [run.finished for run in read_runs(tmp_path / "out")] == [True]


def test_training_goes_on_without_any_stream(allotment: Command, monkeypatch: MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)  # as Python has those that were closed before it began
    assert main(RUN) == 0
    assert main(["run", "nothing"]) == 1
    assert [run.finished for run in read_runs(Path("out"))] == [True]


def test_letters_that_a_terminal_lacks_do_not_fail_a_command(
    allotment: Command, monkeypatch: MonkeyPatch
) -> None:
    content = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(content, encoding="ascii"))
    assert main(["list"]) == 0
    sys.stdout.flush()
    assert b"two_pairs" in content.getvalue()


@fixture
def commanding(tmp_path: Path) -> Path:
    """Kept runs whose names hold codes of a terminal, and lead out of every folder."""
    name = "../../\x1b[31mx"
    names = tuple(f"\x1b]0;{task}\x07" for task in "abcd")
    header = a_header(experiment=name, method="\x1b[2J", task_names=names, families=names)
    keep([a_record(header)], tmp_path / "results")
    return tmp_path


def test_names_do_not_command_a_terminal(allotment: Command, tmp_path: Path) -> None:
    assert allotment(*RUN).status == 0
    path = tmp_path / "out" / "gumbel" / "seed-000" / "settings.json"
    settings = json.loads(path.read_text())
    settings |= {"task_names": [f"\x1b[3{n}m{n}" for n in range(4)], "method": "\x1b[2J"}
    settings |= {"experiment": "\x1b]0;x\x07"}
    path.write_text(json.dumps(settings))
    answer = allotment("embeddings", "out", "-o", "figures")
    assert answer.status == 0, answer.error
    assert "\\x1b[2J" in answer.out
    assert "\x1b" not in answer.out and "\x07" not in answer.out
    path.write_text('{"seed": "\x1b[31m"')
    answer = allotment("report", "out")
    assert answer.status == 1
    assert "\x1b" not in answer.error


def test_figures_stay_in_their_folder(commanding: Path, capsys: CaptureFixture[str]) -> None:
    root = commanding / "a" / "b" / "root"
    root.mkdir(parents=True)
    (commanding / "results").rename(root / "results")
    (root / "docs").mkdir()
    repository = Path(__file__).parents[2]
    shutil.copytree(repository / "results" / "speed", root / "results" / "speed")
    for page in ("README.md", "docs/scale.md", "docs/deploy.md"):
        shutil.copy(repository / page, root / page)
    assert main(["docs", "--root", str(root)]) == 0, capsys.readouterr().err
    outside = [path for path in commanding.rglob("*.png") if root / "docs" not in path.parents]
    assert outside == []
    assert list(root.rglob("*.png"))


NAMED: dict[str, tuple[str, ...]] = {
    "core.fsmonitor": ("config", "core.fsmonitor"),
    "filter.clean": ("config", "filter.a.clean"),
    "filter.process": ("config", "filter.a.process"),
    "filter of an included file": ("config", "-f", ".git/more", "filter.a.clean"),
    "hook": ("config", "nothing.here"),
}


@mark.parametrize("setting", NAMED)
def test_git_runs_nothing_that_a_folder_names(
    setting: str, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    from allotment.records import describe_environment

    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    program.chmod(0o755)
    (tmp_path / ".gitattributes").write_text("*.txt filter=a")
    (tmp_path / "a.txt").write_text("a")
    for words in (
        ("init", "-q"),
        ("add", "a.txt", ".gitattributes"),
        ("-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "x"),
        ("config", "include.path", "more"),
        (*NAMED[setting], str(program)),
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    if setting == "hook":
        (tmp_path / ".git" / "hooks").mkdir(exist_ok=True)
        shutil.copy(program, tmp_path / ".git" / "hooks" / "post-index-change")
    os.utime(tmp_path / "a.txt", (0, 0))  # so that git has to look into it
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALLOTMENT_COMMIT", raising=False)
    found = describe_environment("cpu")
    assert found.commit and not found.dirty
    assert not (tmp_path / "was-run").exists()


def test_a_page_that_cannot_be_finished_leaves_the_one_before(
    allotment: Command, monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    assert allotment(*RUN).status == 0
    (tmp_path / "report.html").write_text("before")

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    answer = allotment("report", "out")
    assert answer.status == 1 and "No space left" in answer.error
    assert (tmp_path / "report.html").read_text() == "before"
    assert not list(tmp_path.glob(".*"))
