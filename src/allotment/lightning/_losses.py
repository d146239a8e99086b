"""The training losses of task batches, kept until somebody asks for them."""

import numpy as np
import torch
from lightning import Trainer
from torch import Tensor

from .._schema import Floats
from ._batch import StepBatch


class KeptLosses:
    """Losses of task batches since they were asked for; nothing waits for the device till then."""

    def __init__(self, n_tasks: int) -> None:
        self._n_tasks = n_tasks
        self._places: list[tuple[int, int]] = []  # of each batch: its round, and its task
        self._losses: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._places)

    def add(self, batch: StepBatch, losses: Tensor) -> None:
        """Keeps the losses ``[K]`` of a step; those of tasks without a label in it are left out."""
        first = batch.step * len(batch.parts)
        known = [place for place, part in enumerate(batch.parts) if part.is_known]
        self._places += [
            ((first + place) // self._n_tasks, batch.parts[place].task) for place in known
        ]
        self._losses.append(losses if len(known) == len(batch.parts) else losses[known])

    def take(self, trainer: Trainer) -> Floats:
        """Returns sums of losses and how many they are, ``[2, K, T]`` for K rounds, and forgets.

        A loss is that of the whole batch: all processes should ask for it.
        """
        losses = torch.cat(self._losses) if self._losses else torch.zeros(0)
        mean = trainer.strategy.reduce(losses, reduce_op="mean").double().cpu().numpy()
        rounds, tasks = np.array(self._places, dtype=np.int64).reshape(-1, 2).T
        rounds = rounds - rounds[0] if len(rounds) else rounds
        found = np.zeros((2, int(rounds.max(initial=-1)) + 1, self._n_tasks))
        np.add.at(found[0], (rounds, tasks), mean)
        np.add.at(found[1], (rounds, tasks), 1.0)
        self._places, self._losses = [], []
        return found
