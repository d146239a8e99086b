"""Two processes, each with its part of every batch, take the steps of one with the whole."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from pytest import mark, param
from torch.testing import assert_close

from allotment.lightning import MultiTaskData, MultiTaskModule
from allotment.records import read_run

from .cases import CASES, N_STEPS
from .toy import trainer

ROOT = Path(__file__).parents[2]
# Every kind of network, schedule and loss once; all combinations are tried by the slow tests.
USUAL = [
    *("own, alternating/ddp", "modularized, joint/ddp", "streamed, joint/ddp"),
    *("some known/ddp", "observing/ddp", "masks by example, streamed/ddp"),
    *("own, alternating/fsdp", "modularized, joint/fsdp"),
]
DIVIDED = (  # FSDP
    *("own, alternating/fsdp", "own, alternating/parts"),
    *("modularized, joint/fsdp", "streamed, joint/fsdp"),
)

pytestmark = mark.filterwarnings("ignore::FutureWarning")


def environment() -> dict[str, str]:
    """Returns what a process of its own needs to find the tests and the package."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def in_two_processes(labels: list[str], folder: Path) -> list[dict[str, Any]]:
    """Returns what each of two processes found, by case and strategy."""
    command = [sys.executable, str(ROOT / "tests/lightning/ddp.py"), str(folder), *labels]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4_000:]
    return [torch.load(folder / f"found-{rank}.pt") for rank in range(2)]


def assert_as_one(case: str, found: dict[str, Any], folder: Path) -> None:
    """Asserts that weights and metrics are those of one process."""
    made = CASES[case]()
    module = MultiTaskModule(*made, seed=5)
    alone = trainer(folder)
    before = {name: value.clone() for name, value in module.network.state_dict().items()}
    alone.fit(module, MultiTaskData(made.tasks, made.settings, seed=5))
    now = module.network.state_dict()
    assert any(not torch.equal(before[name], value) for name, value in now.items())
    assert found["steps"] == alone.global_step
    for name, value in now.items():
        assert_close(found["weights"][name], value, rtol=1e-9, atol=1e-9, msg=f"{case}: {name}")
    assert found["metrics"].keys() == alone.callback_metrics.keys()
    for name, value in alone.callback_metrics.items():
        assert abs(found["metrics"][name] - float(value)) < 1e-6, (case, name)


@mark.usefixtures("double")  # so that rounding is told from all else
@mark.parametrize(
    "labels",
    [
        param(USUAL, id="usual"),
        param([*(f"{case}/ddp" for case in CASES), *DIVIDED], id="all", marks=mark.slow),
    ],
)
def test_two_processes_take_the_steps_of_one(labels: list[str], tmp_path: Path) -> None:
    first, second = in_two_processes(labels, tmp_path)
    for label in labels:
        case, _, strategy = label.partition("/")
        assert first[label]["is_divided"] == (label in DIVIDED)
        record = read_run(tmp_path / strategy / case / "ours" / "seed-005")
        assert_close(torch.tensor(record.outcome.matrix), first[label]["matrix"].double())
        assert torch.equal(first[label]["gates"], second[label]["gates"]), label
        for name, value in first[label]["weights"].items():
            assert torch.equal(second[label]["weights"][name], value), (label, name)
        assert_as_one(case, first[label], tmp_path)
    assert all(first[label]["steps"] >= N_STEPS for label in labels if ", " in label)


ENDING = """
import atexit, sys, torch
# The first to be registered is the last to be called.
atexit.register(lambda: print("in a group:", torch.distributed.is_initialized()))
from pathlib import Path
from allotment.lightning import MultiTaskData, MultiTaskModule
from tests.lightning.toy import SETTINGS, network, tasks, trainer
run = trainer(Path(sys.argv[1]), strategy="ddp", max_steps=2)
run.fit(MultiTaskModule(network(), tasks(), SETTINGS), MultiTaskData(tasks(), SETTINGS))
print("in a group:", torch.distributed.is_initialized())
"""


def test_a_process_leaves_its_group_before_it_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDING, str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("in a group")]
    assert said == ["in a group: True", "in a group: False"], done.stderr[-4_000:]
