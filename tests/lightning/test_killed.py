"""A process that is killed at a random moment costs time, and nothing else."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from pytest import mark
from torch.testing import assert_close

from allotment.records import read_run

from .killed import N_ROUNDS, main
from .test_processes import ROOT, environment

N_STEPS = 3 * N_ROUNDS

pytestmark = [
    mark.filterwarnings("ignore::FutureWarning"),
    mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    mark.filterwarnings('ignore:.fit.ckpt_path="last".* is set'),
]


def start(folder: Path, n_restarts: int) -> "subprocess.Popen[bytes]":
    """Starts a training in two processes; torchrun starts it anew where one of them dies."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [
        f"--max-restarts={n_restarts}",
        str(ROOT / "tests/lightning/killed.py"),
        str(folder),
    ]
    # Else torchrun's store keeps the addresses of dead processes, and gloo waits for these.
    variables = environment() | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with (folder / "errors").open("wb") as errors:
        return subprocess.Popen(command, env=variables, stdout=errors, stderr=errors)


def kill(job: "subprocess.Popen[bytes]", told: Path, step: int, delay: float) -> None:
    """Kills a process so many seconds after it told of a step."""
    while True:
        pid, now = map(int, told.read_text().split()) if told.exists() else (0, -1)
        if now >= step:
            break
        assert job.poll() is None, (told.parent / "errors").read_text()[-4_000:]
        time.sleep(0.002)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def assert_kills_cost_nothing(seed: int, n_kills: int, folder: Path) -> None:
    """Asserts that a job that was killed as often as it may start ends, and that another goes on.

    Steps, processes and fractions of a second are drawn; step 0 is before the first batch.
    """
    draw = random.Random(seed)
    folder.mkdir()
    job = start(folder, n_restarts=n_kills - 1)
    for n in range(n_kills):
        step, rank = draw.randrange(0, N_STEPS * 3 // 4), draw.randrange(2)
        kill(job, folder / f"process-{n}-{rank}", step, draw.uniform(0.0, 0.05))
    assert job.wait() != 0
    errors = (folder / "errors").read_text()
    assert "Signal 9 (SIGKILL) received by PID" in errors, errors[-4_000:]
    told = [int(file.read_text().split()[0]) for file in folder.glob("process-*-?")]
    assert len(told) == 2 * n_kills
    assert not any(map(is_alive, told))
    again = start(folder, n_restarts=0)
    assert again.wait() == 0, (folder / "errors").read_text()[-4_000:]


def assert_as_never_killed(found: Path, whole: Path) -> None:
    """Asserts that weights and records are those of a training in one process, to rounding."""
    expected = torch.load(whole / "weights.pt")
    for name, value in torch.load(found / "weights.pt").items():
        assert_close(value, expected[name], rtol=1e-9, atol=1e-9, msg=name)
    runs = [read_run(folder / "runs" / "GumbelMatrix" / "seed-005") for folder in (found, whole)]
    np.testing.assert_allclose(runs[0].losses, runs[1].losses, rtol=1e-6)
    np.testing.assert_allclose(runs[0].outcome.final_loss, runs[1].outcome.final_loss)
    assert runs[0].finished and runs[0].outcome.rounds == N_ROUNDS


@mark.slow  # that going on from a checkpoint is exact, tests of one process show at every change
@mark.usefixtures("double")
@mark.skipif(not Path("/proc/self").exists(), reason="processes are looked up in /proc")
@mark.parametrize(("seed", "n_kills"), [(7, 1), *((seed, 3) for seed in range(7))])  # 22 kills
def test_a_killed_process_costs_time_alone(seed: int, n_kills: int, tmp_path: Path) -> None:
    whole, found = tmp_path / "whole", tmp_path / "found"
    main(whole, n_processes=1)
    assert_kills_cost_nothing(seed, n_kills, found)
    assert_as_never_killed(found, whole)
