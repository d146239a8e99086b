"""A program that trains in two processes: ``ddp.py FOLDER CASE/STRATEGY ...``.

One pair of processes takes all cases, one after another. Each writes what it found.
"""

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from allotment.lightning import AllocationLogger, MultiTaskData, MultiTaskModule, RunFolder
from allotment.lightning._strategies import whole, whole_weights
from tests.lightning.cases import CASES
from tests.lightning.toy import trainer

N_PROCESSES = 2


class InParts(MultiTaskModule):
    """Divides its heads by themselves, a unit that is whole in its own pass alone."""

    def configure_model(self) -> None:
        assert self.device_mesh is not None and self.network.heads is not None
        fully_shard(self.network.heads, mesh=self.device_mesh["data_parallel"])
        super().configure_model()


def strategy(name: str) -> Any:
    if name == "ddp":
        return name
    return ModelParallelStrategy(data_parallel_size=N_PROCESSES, tensor_parallel_size=1)


def keep_gates(module: MultiTaskModule) -> list[Tensor]:
    """Returns a list that the gates of each task batch are added to."""
    kept: list[Tensor] = []
    compute = module.network.compute

    def keeping(x: Any, running: Any) -> Tensor:
        y = compute(x, running)
        if module.training:
            # Gates of examples differ between processes, which have different ones.
            used = [own.weights for own in running.used if not own.allocation.sees_examples]
            flat = [weights.detach().flatten() for weights in used]
            kept.append(torch.cat([torch.tensor([running.task]), *flat]))
        return y

    module.network.compute = keeping  # type: ignore[method-assign]
    return kept


def train(folder: Path, case: str, how: str) -> tuple[dict[str, Any], int]:
    """Returns what a process found, and its rank."""
    made = CASES[case]()
    module = (InParts if how == "parts" else MultiTaskModule)(*made, seed=5)
    gates = keep_gates(module)
    callbacks = [AllocationLogger(10), RunFolder(folder / how / case, method="ours")]
    run = trainer(folder, devices=N_PROCESSES, strategy=strategy(how), callbacks=callbacks)
    run.fit(module, MultiTaskData(made.tasks, made.settings, seed=5))
    with whole(run, module):
        matrix = module.network.matrix().detach().clone()
    found = {
        "weights": whole_weights(run, module),
        "metrics": {name: float(value) for name, value in run.callback_metrics.items()},
        "matrix": matrix,
        "gates": torch.stack(gates),
        "steps": run.global_step,
        "is_divided": any(isinstance(value, DTensor) for value in module.parameters()),
    }
    return found, run.global_rank


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.simplefilter("ignore")
    results = {}
    for label in sys.argv[2:]:
        results[label], rank = train(folder, *label.split("/"))
    torch.save(results, folder / f"found-{rank}.pt")
