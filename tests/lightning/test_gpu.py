"""One process on a GPU under each strategy takes the steps of one on the CPU, also in bfloat16."""

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from pytest import mark

from allotment.lightning import AllocationLogger, MultiTaskData, MultiTaskModule, RunFolder
from allotment.lightning._strategies import whole_weights
from allotment.records import read_run

from .cases import CASES
from .toy import network, tasks, trainer

pytestmark = [
    mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    mark.filterwarnings("ignore"),  # of FSDP with one process, of budgets, and of Lightning's own
]

STRATEGIES: dict[str, Any] = {
    "ddp": lambda: "ddp",
    "fsdp": FSDPStrategy,
    "fully_shard": lambda: ModelParallelStrategy(data_parallel_size=1, tensor_parallel_size=1),
}


def trained(case: str, folder: Path, **options: Any) -> dict[str, torch.Tensor]:
    """Returns the weights after a training with callbacks, and a test."""
    made = CASES[case]()
    module = MultiTaskModule(*made, seed=5)
    data = MultiTaskData(made.tasks, made.settings, seed=5)
    callbacks = [AllocationLogger(10), RunFolder(folder / "runs", method="ours")]
    run = trainer(folder, callbacks=callbacks, **options)
    run.fit(module, data)
    return whole_weights(run, module)


@mark.parametrize("strategy", STRATEGIES)
@mark.parametrize("case", ["own, alternating", "modularized, joint", "streamed, joint"])
def test_a_gpu_takes_the_steps_of_the_cpu(case: str, strategy: str, tmp_path: Path) -> None:
    expected = trained(case, tmp_path / "cpu")
    chosen = {"accelerator": "gpu", "strategy": STRATEGIES[strategy]()}
    found = trained(case, tmp_path / "gpu", **chosen)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-2, atol=1e-3, msg=name)
    for device in ("cpu", "gpu"):
        assert read_run(tmp_path / device / "runs" / "ours" / "seed-005").finished


@mark.parametrize("strategy", STRATEGIES)
def test_bfloat16_comes_near_full_precision(strategy: str, tmp_path: Path) -> None:
    before = CASES["own, alternating"]().network.state_dict()
    full = trained("own, alternating", tmp_path / "cpu")
    chosen = {"accelerator": "gpu", "strategy": STRATEGIES[strategy](), "precision": "bf16-mixed"}
    mixed = trained("own, alternating", tmp_path / "gpu", **chosen)
    moved = sum((full[n] - before[n]).square().sum() for n in full if n.startswith("heads")) ** 0.5
    apart = sum((full[n] - mixed[n]).square().sum() for n in full if n.startswith("heads")) ** 0.5
    assert 0 < apart < 0.25 * moved


@mark.parametrize("strategy", STRATEGIES)
def test_a_training_on_a_gpu_goes_on_from_a_checkpoint(strategy: str, tmp_path: Path) -> None:
    case = CASES["own, alternating"]
    file = tmp_path / "half.ckpt"

    def fit(n_steps: int, ckpt_path: Path | None) -> dict[str, torch.Tensor]:
        made = case()
        module = MultiTaskModule(network(), tasks(), made.settings, seed=5)
        chosen = {"accelerator": "gpu", "strategy": STRATEGIES[strategy](), "max_steps": n_steps}
        run = trainer(tmp_path, **chosen)
        run.fit(module, MultiTaskData(tasks(), made.settings, seed=5), ckpt_path=ckpt_path)
        if ckpt_path is None:
            run.save_checkpoint(file)
        return whole_weights(run, module)

    whole = fit(40, None)
    fit(20, None)
    resumed = fit(40, file)
    for name, value in whole.items():
        torch.testing.assert_close(resumed[name], value, msg=name)
