"""A process killed at each of its file operations: the next goes on, and the end is the same."""

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from pytest import MonkeyPatch, mark, skip

import allotment.cli._run
import allotment.report  # noqa: F401  (here, so that no child has to)
from allotment.cli import main
from allotment.paper import EXPERIMENTS
from tests.experiments.test_running import records_in
from tests.experiments.toy import toy

OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
RUN = ("run", "two_pairs", "--runs", "2", "--method", "gumbel", "--device", "cpu")
EVERY = ("--checkpoint-every", "10")
N_KILLS = 8  # in the normal suite


def in_a_child(work: Callable[[], int]) -> int:
    """Does work in a process of its own and returns its status; negative where it was killed."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            with redirect_stdout(StringIO()):
                status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def counting(folder: Path, die_at: int | None) -> list[int]:
    """Counts this process's operations on files in a folder, and kills it at one of them."""
    n = [0]

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event in OPERATIONS and str(folder) in os.fsdecode(str(arguments[0])):
            n[0] += 1
            if n[0] == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    return n


def trained(folder: Path, out: str, die_at: int | None = None) -> int:
    """Begins or resumes a sweep in a child."""

    def work() -> int:
        n = counting(folder / out, die_at)
        place = "--resume" if (folder / out / "launch.json").exists() else "--out"
        status = main([*RUN, place, str(folder / out), *EVERY])
        (folder / f"{out}.count").write_text(str(n[0]))
        return status

    return in_a_child(work)


def left(out: Path) -> dict[str, Any]:
    """Returns what a sweep left, but for commands, since they name the folder."""
    records = records_in(out)
    for name, content in records.items():
        if name.endswith("settings.json") or name == "launch.json":
            records[name] = {k: v for k, v in json.loads(content).items() if k != "command"}
    return records


def check(numbers: Callable[[int], list[int]], folder: Path, patch: MonkeyPatch) -> None:
    """Asserts that sweeps killed at these of their file operations end as one never killed."""
    if torch.cuda.is_initialized():
        skip("a child of a process that has used CUDA cannot train")
    patch.setitem(EXPERIMENTS, "two_pairs", toy("two_pairs", rounds=30, trace=False))
    patch.chdir(folder)  # in no repository, so that nothing asks git
    assert trained(folder, "whole") == 0
    whole, n_operations = left(folder / "whole"), int((folder / "whole.count").read_text())
    for number in numbers(n_operations):
        out = f"killed-{number}"
        assert trained(folder, out, die_at=number) == -signal.SIGKILL, number
        assert trained(folder, out) == 0, number
        assert left(folder / out) == whole, number


def test_kills_at_some_file_operations_change_nothing(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    check(lambda n: random.Random(0).sample(range(1, n + 1), N_KILLS), tmp_path, monkeypatch)


@mark.slow
def test_kills_at_all_file_operations_change_nothing(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    check(lambda n: list(range(1, n + 1)), tmp_path, monkeypatch)
