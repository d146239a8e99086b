"""The allocations of a network, which are told what has passed."""

import torch
from lightning import Trainer
from torch import Tensor

from .._engine import changes_by_batch
from ..modules import TaskNetwork
from ._batch import TaskBatch


class Observers:
    """Tells allocations of task batches, once the step that they are a part of is taken."""

    def __init__(self, network: TaskNetwork, n_batches: int) -> None:
        allocations = dict.fromkeys(layer.allocation for layer in network.modular_layers)
        self._allocations = list(allocations)
        self._look = any(map(changes_by_batch, self._allocations))  # at losses
        self._waiting: list[tuple[TaskBatch, Tensor]] = []  # of the step under way
        for allocation in self._allocations:
            allocation.expect(n_batches)

    def keep(self, part: TaskBatch, loss: Tensor) -> None:
        """Keeps the loss of a task's batch until its step is taken."""
        self._waiting.append((part, loss.detach()))

    @torch.no_grad()
    def tell(self, trainer: Trainer) -> None:
        """Tells of the batches of a step, with their losses in all processes together."""
        waiting, self._waiting = self._waiting, []
        for part, loss in waiting:
            if self._look:
                loss = trainer.strategy.reduce(loss, reduce_op="mean")
            for allocation in self._allocations:
                if part.is_known:
                    allocation.observe(part.task, loss)
                allocation.advance()
