"""What allocations do while they train, told to Lightning's loggers."""

from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_only

from .._checks import check_at_least, check_whole, described
from ..modules import TaskNetwork
from ..training import DeadTasks
from ._module import MultiTaskModule


class AllocationLogger(Callback):
    """Logs how open the gates are, and warns once of each task that uses nothing of a layer.

    ``gates_open`` is the share of gates that evaluation has open, and ``gates_open/a`` that of a
    task. The warning comes with the entry, or after the epoch, at which it is first seen.

    Args:
        every: Steps between entries.
        probabilities: Whether to log each gate's probability to be open, too, as
            ``probability/a/3`` for the fourth component.
    """

    def __init__(self, every: int = 50, *, probabilities: bool = False) -> None:
        check_whole("every", every)
        check_at_least("every", every, 1)
        self._every = every
        self._probabilities = probabilities
        self._watch: DeadTasks | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if not isinstance(pl_module, MultiTaskModule):
            raise TypeError(
                f"AllocationLogger should have a MultiTaskModule. Found {described(pl_module)}."
            )

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step % self._every == 0 and trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics(self._values(pl_module), step=trainer.global_step)
            assert isinstance(pl_module, MultiTaskModule)
            self._look(trainer, pl_module.network)

    def _values(self, module: LightningModule) -> dict[str, float]:
        assert isinstance(module, MultiTaskModule)
        names = module.network.task_names
        rows = module.network.matrix().float().mean(dim=1).tolist()
        found = {"gates_open": sum(rows) / len(rows)}
        found |= {f"gates_open/{name}": row for name, row in zip(names, rows, strict=True)}
        if self._probabilities:
            for name, row in zip(names, module.network.probabilities().tolist(), strict=True):
                found |= {f"probability/{name}/{n}": value for n, value in enumerate(row)}
        return found

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, MultiTaskModule)
        self._look(trainer, pl_module.network)

    @rank_zero_only
    @torch.no_grad()
    def _look(self, trainer: Trainer, network: TaskNetwork) -> None:
        """Warns of tasks that are left with nothing, each once."""
        if self._watch is None:
            self._watch = DeadTasks(network, network.task_names)
        gates = (network.probabilities(), network.matrix())
        dead = self._watch.look(*(part.cpu().double().numpy() for part in gates))
        self._watch.tell(dead, f" at step {trainer.global_step:,}")
