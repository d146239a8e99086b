"""The training losses of task batches: kept until somebody asks, and told to allocations."""

from typing import NamedTuple

import numpy as np
import torch
from lightning import Trainer
from torch import Tensor

from .._engine import changes_by_batch
from .._schema import Floats
from ..modules import TaskNetwork
from ._batch import StepBatch, TaskBatch


class RoundLosses(NamedTuple):
    """The losses of ``K`` rounds, added up by task."""

    sums: Floats  # [K, T]
    counts: Floats  # [K, T], of their batches
    first: int  # the round of the first row
    first_bad: int | None  # the first batch, counted from 0, whose loss was not finite, if any


class KeptLosses:
    """Losses of task batches since they were asked for; nothing waits for the device till then."""

    def __init__(self, n_tasks: int) -> None:
        self._n_tasks = n_tasks
        self._places: list[tuple[int, int]] = []  # of each batch: its number, and its task
        self._losses: list[Tensor] = []

    def add(self, batch: StepBatch, losses: Tensor) -> None:
        """Keeps the losses ``[K]`` of a step; those of tasks without a label in it are left out."""
        first = batch.step * len(batch.parts)
        known = [place for place, part in enumerate(batch.parts) if part.is_known]
        self._places += [(first + place, batch.parts[place].task) for place in known]
        self._losses.append(losses if len(known) == len(batch.parts) else losses[known])

    def take(self, trainer: Trainer) -> RoundLosses:
        """Returns the losses since the last time, and forgets them.

        A loss is that of the whole batch: all processes should ask for it.
        """
        values = np.zeros(0)  # in all processes alike: there is nothing to exchange
        if self._losses:
            means = trainer.strategy.reduce(torch.cat(self._losses), reduce_op="mean")
            values = means.double().cpu().numpy()
        numbers, tasks = np.array(self._places, dtype=np.int64).reshape(-1, 2).T
        self._places, self._losses = [], []
        first = int(numbers[0]) // self._n_tasks if len(numbers) else 0
        rounds = numbers // self._n_tasks - first
        sums, counts = np.zeros((2, rounds.max(initial=-1) + 1, self._n_tasks))
        np.add.at(sums, (rounds, tasks), values)
        np.add.at(counts, (rounds, tasks), 1.0)
        bad = numbers[~np.isfinite(values)]
        return RoundLosses(sums, counts, first, int(bad[0]) if len(bad) else None)


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
