"""Signals in the middle of training."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path

from pytest import CaptureFixture, mark, param

from allotment.cli import main
from allotment.records import unfinished_runs
from tests.cli.processes import ended, started

RUN = ("run", "two_pairs", "--out", "out", "--method", "gumbel", "--runs", "2")
STOPPING = "allotment: stopping after this block of rounds; again, to stop at once."


def wait_for(path: Path, process: "subprocess.Popen[str]", seconds: float = 60) -> None:
    """Waits until a file is there and its writer still at work."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, f"no {path} after {seconds} s"
        time.sleep(0.02)


@mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), param(signal.SIGTERM, 143, marks=mark.slow)],
)
def test_a_signal_stops_with_a_checkpoint_and_says_how_to_go_on(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    process = started(tmp_path, *RUN)  # as long as declared: not over soon
    wait_for(tmp_path / "out" / "gumbel" / "seed-001" / "metrics.jsonl", process)
    process.send_signal(number)
    _, error = ended(process)
    assert process.returncode == status
    assert error.strip().splitlines() == [
        STOPPING,
        f"allotment: Stopped ({number.name}). To resume: allotment run two_pairs --resume out",
    ]
    folders = unfinished_runs(tmp_path / "out")
    assert [folder.name for folder in folders] == ["seed-000", "seed-001"]
    assert all(number.name in (f / "interrupted.json").read_text() for f in folders)
    assert len(list((tmp_path / "out" / "checkpoints").glob("*/round-*"))) == 1


def press_again(process: "subprocess.Popen[str]") -> None:
    """Presses Ctrl-C, and once more after five seconds where that was not heard.

    It was lost once, which 48 further tries did not show again: an interrupt that is raised amid
    code of others may be caught there. The block that would else be finished takes far longer.
    """
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
            return


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    # Forty steps with so many images take much longer than this test waits between signals.
    options = ("--method", "gumbel", "--runs", "2", "--set", "batch_size=10_000")
    process = started(tmp_path, "run", "digits", "--out", "out", *options)
    wait_for(tmp_path / "out" / "gumbel" / "seed-001" / "environment.json", process)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while STOPPING not in process.stderr.readline():
        pass
    press_again(process)
    _, error = ended(process)
    assert process.returncode == 130
    assert error.strip() == "allotment: stopped; runs under way are marked interrupted."
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["launch.json"]


SLOW_TORCH = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.1)
print("imported")
"""


@mark.parametrize(
    ("before", "status", "said"),
    [
        ("signal.default_int_handler", -signal.SIGINT, ""),
        ("signal.SIG_IGN", 1, "imported"),  # and then there is no torch in it
    ],
)
def test_ctrl_c_amid_the_imports_needs_no_words(
    before: str, status: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "torch.py").write_text(SLOW_TORCH)
    begin = f"import signal; signal.signal(signal.SIGINT, {before})"
    end = "import allotment_command; allotment_command.main()"
    paths = [str(tmp_path), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}; {end}"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (status, said)
    assert bool(done.stderr) == bool(said)


def test_the_command_is_the_one_that_can_be_interrupted_from_the_start() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"allotment": "allotment_command:main"}


def test_what_still_runs_is_not_resumed_and_what_was_killed_is(
    tmp_path: Path, capsys: CaptureFixture[str]
) -> None:
    process = started(tmp_path, *RUN, "--checkpoint-every", "100")
    out = tmp_path / "out"
    wait_for(out / "gumbel" / "seed-001" / "allocations.npz", process)  # and then a checkpoint
    options = (out / "launch.json").read_bytes()
    resume = ("run", "two_pairs", "--resume", str(out), "--minutes", "1e-9", "--device", "cpu")
    assert main([*resume, "--rounds", "30_000"]) == 1
    said = capsys.readouterr().err
    assert f"held by process {process.pid} on" in said
    assert (out / "launch.json").read_bytes() == options
    process.kill()
    ended(process)
    assert [path.suffix for path in out.glob("checkpoints/*.lock")] == [".lock"]
    assert main(resume) == 0
    assert "Stopped (time limit)" in capsys.readouterr().out
    assert not list(out.glob("checkpoints/*.lock"))
    lines = (out / "gumbel" / "seed-000" / "metrics.jsonl").read_text().splitlines()
    rounds = [json.loads(line)["round"] for line in lines]
    assert rounds == sorted(set(rounds))
