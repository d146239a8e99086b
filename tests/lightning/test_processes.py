"""Two processes, each with its part of every batch, take the steps of one with the whole."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from pytest import mark
from torch.testing import assert_close

from allotment.lightning import MultiTaskData, MultiTaskModule

from .cases import CASES
from .toy import trainer

ROOT = Path(__file__).parents[2]

pytestmark = mark.filterwarnings("ignore::FutureWarning")


def in_processes(n: int, case: str, folder: Path) -> dict[str, Any]:
    """Returns weights and metrics of a training in so many processes of their own."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(ROOT / "tests/lightning/ddp.py"), str(n), case, "found.pt"]
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, Any] = torch.load(folder / "found.pt")
    return found


def assert_two_are_one(case: str, folder: Path) -> None:
    """Asserts that two processes end with the weights and metrics of one."""
    found = in_processes(2, case, folder)
    network, tasks, settings = CASES[case]()
    module = MultiTaskModule(network, tasks, settings, seed=5)
    alone = trainer(folder)
    before = {name: value.clone() for name, value in module.network.state_dict().items()}
    alone.fit(module, MultiTaskData(tasks, settings, seed=5))
    assert any(not torch.equal(before[n], v) for n, v in module.network.state_dict().items())
    for name, value in module.network.state_dict().items():
        assert_close(found["weights"][name], value, rtol=1e-3, atol=1e-5, msg=name)
    for name, value in alone.callback_metrics.items():
        if not name.startswith("train_loss"):  # that of the first process's part
            assert_close(found["metrics"][name], float(value), rtol=1e-4, atol=1e-5)


def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    assert_two_are_one("alternating", tmp_path)


@mark.slow
@mark.parametrize("case", [case for case in CASES if case != "alternating"])
def test_two_processes_take_the_steps_of_one_in_every_case(case: str, tmp_path: Path) -> None:
    assert_two_are_one(case, tmp_path)
