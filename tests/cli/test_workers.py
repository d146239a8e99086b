"""Processes from the command line: killed, stopped, and resumed by another number of them."""

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from pytest import mark

from tests.cli.conftest import Command
from tests.cli.processes import ended, started
from tests.cli.test_bad_input import assert_one_sentence
from tests.cli.test_interrupt import STOPPING, wait_for
from tests.cli.test_kill import records_without_commands

# With a function that is cached, and one that is imported from beside: neither can be pickled.
FILE = """
from functools import cache

import torch
from torch import nn

import allotment as al
from allotment.experiments import Experiment, Method, using
from beside import width

@cache
def examples():
    x = torch.randn(50, width(), generator=torch.Generator().manual_seed(0))
    return x, x.sum(1)

def network(allocate, outputs):
    layer = al.ModularLayer([nn.Linear(width(), 1) for _ in range(3)], allocate(3))
    return al.MultiTaskNetwork(None, [layer], task_names=list(outputs))

mine = Experiment(
    name="mine",
    tasks=lambda choice: [al.Task(name, examples()) for name in "ab"],
    network=network,
    methods=[
        Method(name="shared", allocation=using(al.SharedBottom)),
        Method(name="gumbel", allocation=using(al.GumbelMatrix)),
    ],
    training=al.TrainingSettings(rounds=20_000),
)
"""


def children(process: "subprocess.Popen[str]") -> list[Path]:
    """Returns the places in /proc of the workers that a process has."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [Path("/proc") / number for number in found]


def newest_checkpoint(out: Path) -> int:
    """Returns the rounds of the run group that got furthest."""
    return max((int(path.name[6:]) for path in out.glob("checkpoints/*/round-*")), default=0)


def wait_for_checkpoint(out: Path, process: "subprocess.Popen[str]") -> None:
    """Waits until a run group has got further than all were."""
    done = newest_checkpoint(out)
    while newest_checkpoint(out) <= done:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def results(out: Path) -> dict[str, Any]:
    """Returns weights and summaries, which are the same wherever log entries lie."""
    records = records_without_commands(out)
    kept = {name: records[name] for name in records if name.endswith(("summary.json", "tensors"))}
    for value in kept.values():
        if isinstance(value, dict):
            del value["sha256"]  # of log entries too, which lie elsewhere after a stop
    return kept


@mark.slow  # at every change, launchers are stopped and their processes killed without a command
def test_workers_stopped_and_killed_with_their_sweep_change_nothing(
    allotment: Command, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "beside.py").write_text("def width():\n    return 8\n")
    apart = ("--workers", "2", "--device", "cpu", "--checkpoint-every", "50")
    process = started(tmp_path, "run", "mine.py", "--out", "out", *apart)
    for method in ("shared", "gumbel"):
        wait_for(tmp_path / "out" / method / "seed-000" / "metrics.jsonl", process)
    process.send_signal(signal.SIGINT)
    text, error = ended(process)
    assert process.returncode == 130, text
    assert error.strip().splitlines() == [
        STOPPING,
        "allotment: Stopped (SIGINT). To resume: allotment run mine.py --resume out",
    ]
    assert len(list(tmp_path.rglob("interrupted.json"))) == 2

    process = started(tmp_path, "run", "mine.py", "--resume", "out", *apart)
    wait_for_checkpoint(tmp_path / "out", process)
    workers = children(process)
    process.kill()
    assert len(workers) == 2
    while any(worker.exists() for worker in workers):  # they end by themselves
        time.sleep(0.02)
    assert ended(process)[0].count("seed 0: Resuming after round") >= 1

    rounds = ("--rounds", str(newest_checkpoint(tmp_path / "out") + 50))
    answer = allotment("run", "mine.py", "--resume", "out", *rounds)
    assert (answer.status, answer.error) == (0, "")
    assert answer.out.count("Resuming after round") == 2
    assert allotment("run", "mine.py", "--out", "whole", "--device", "cpu", *rounds).status == 0
    assert results(tmp_path / "out") == results(tmp_path / "whole")


def test_a_number_of_workers_that_is_none_is_one_sentence(allotment: Command) -> None:
    answer = allotment("run", "two_pairs", "--workers", "all")
    assert answer.status == 1
    assert_one_sentence(answer.error, "`workers` should be a number or 'auto'")
