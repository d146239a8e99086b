"""Run groups in processes of their own."""

import os
import subprocess
from pathlib import Path
from typing import Any

import torch
from pytest import MonkeyPatch, mark, raises
from torch import Tensor, nn

import allotment as al
from allotment.experiments import Experiment, GroupsFailed, Method, RunGroup, run_sweep, using
from allotment.experiments.launchers import InTurn, Processes, choose_launcher
from allotment.experiments.launchers import _processes as processes
from allotment.records import read_runs
from allotment.training import Progress
from tests.experiments.test_running import a_sweep, records_in


def test_a_process_that_is_killed_changes_nothing(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        process: subprocess.Popen[bytes] = popen(*arguments, **options)
        begun.extend([process] if "pass_fds" in options else [])  # others ask git
        return process

    monkeypatch.setattr(subprocess, "Popen", noted)
    rounds: dict[str, Any] = {"checkpoint_every": 10, "group_size": 1}
    said: list[str] = []

    def kill(group: RunGroup, progress: Progress) -> None:
        if len(begun) == 2 and progress.outcomes is None:  # both have an order, and one trains
            begun[0].kill()

    run_sweep(a_sweep(tmp_path / "apart", **rounds), kill, say=said.append, launcher=Processes(2))
    run_sweep(a_sweep(tmp_path / "in turn", **rounds))
    assert len(begun) == 3
    assert all(process.poll() is not None for process in begun)
    assert sum("its worker was lost" in text for text in said) == 1
    assert records_in(tmp_path / "apart") == records_in(tmp_path / "in turn")


def test_an_exception_ends_its_own_group_and_is_told_with_its_name(tmp_path: Path) -> None:
    here = os.getpid()

    class Fragile(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            if os.getpid() != here:
                raise ZeroDivisionError("not here")
            return super().forward(input)

    def network(allocate: Any, outputs: Any) -> al.MultiTaskNetwork:
        allocation = allocate(2)
        kind = Fragile if allocation.is_learnt else nn.Linear
        layer = al.ModularLayer([kind(8, 1) for _ in range(2)], allocation)
        return al.MultiTaskNetwork(None, [layer], task_names=list(outputs))

    mine = Experiment(
        name="mine",
        tasks=[al.Task(name, (torch.randn(40, 8), torch.randn(40))) for name in "ab"],
        network=network,
        methods=[
            Method(name="gumbel", allocation=using(al.GumbelMatrix)),
            Method(name="shared", allocation=using(al.SharedBottom)),
        ],
        training=al.TrainingSettings(rounds=10),
    )
    said: list[str] = []
    with raises(GroupsFailed, match=r"^A run group should train to its end\. Found .*not here"):
        al.sweep(mine, tmp_path, device="cpu", workers=2, say=said.append)
    assert sum("in gumbel, seed 0: " in line for line in said) == 1
    assert [run.header.method for run in read_runs(tmp_path)] == ["shared"]
    assert [run.header.seed for run in al.sweep(mine, tmp_path, device="cpu", resume=True)] == [
        0,
        0,
    ]


def test_what_cannot_be_sent_is_refused_before_anything_trains(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path, options={})
    with (tmp_path / "a file").open("w") as file:
        object.__setattr__(sweep.experiment, "summary", file)
        with raises(ValueError, match=r"should consist of what can be sent to other processes"):
            run_sweep(sweep, launcher=Processes(2))
    assert not list(tmp_path.rglob("settings.json"))


@mark.parametrize(
    ("visible", "n_gpus", "expected"),
    [("", 0, []), ("", 2, ["0", "1"]), ("3, 5", 2, ["3", "5"])],
)
def test_gpus_are_called_as_in_the_variable(
    visible: str, n_gpus: int, expected: list[str], monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    assert processes.visible_gpus() == expected
    several = Processes() if n_gpus > 1 else InTurn()
    assert choose_launcher("auto") == several
    assert choose_launcher("cuda:0") == choose_launcher("cpu") == InTurn()
