"""What a program has done so far, brought to the host once a block."""

from collections import deque

import numpy as np
import torch
from torch import Tensor

from .._progress import Evaluation, Floats, Point, TrainingState
from ._replicas import Replicas
from ._settings import ROUNDS_PER_BLOCK

N_POINTS = 300  # about so many points make a run's curve


class Tracker:
    """Collects the losses of ``R`` runs and sees which of them failed."""

    def __init__(self, replicas: Replicas, n_tasks: int, n_last_rounds: int) -> None:
        self._replicas = replicas
        self._n_tasks = n_tasks
        self._stretch: list[Floats] = []  # [K, R, T] each
        self._last: deque[Floats] = deque(maxlen=n_last_rounds)  # [R] each, means over tasks
        self._n_steps = 0
        self.n_points = 0
        self.failed: list[int | None] = [None] * replicas.n_runs
        self.last_block: Floats = np.full(replicas.n_runs, np.nan)  # each run's mean loss in it

    @property
    def is_amid(self) -> bool:
        """Whether there are losses that no point has told yet."""
        return any(map(len, self._stretch))

    def add(self, losses: Tensor, tasks: Tensor) -> None:
        """Takes the losses ``[S, R]`` of a block."""
        if len(losses) != len(tasks):
            raise ValueError(
                "A loss should be one number, the mean over a batch. "
                f"Found {len(losses) // len(tasks)} numbers for each."
            )
        values = losses.cpu().double().numpy()
        order = tasks[: len(values)].cpu().numpy()
        rounds = values.reshape(-1, self._n_tasks, values.shape[1])  # [K, T, R] as they came
        order = order.reshape(rounds.shape)
        by_task = np.take_along_axis(rounds, order.argsort(axis=1), axis=1).swapaxes(1, 2)
        self._stretch.append(by_task)
        self._last.extend(by_task.mean(axis=2))
        for step, run in np.argwhere(~np.isfinite(values)):
            if self.failed[run] is None:
                self.failed[run] = self._n_steps + int(step)
        self._n_steps += len(values)
        self.last_block = values.mean(axis=0)

    def points(self, done: int, validations: list[Evaluation] | None) -> list[Point]:
        """Returns each run's point for the rounds since the last call."""
        losses = np.concatenate(self._stretch).mean(axis=0)  # [R, T]
        self._stretch = []
        self.n_points += 1
        probabilities, matrices = self._replicas.gates()
        return [
            Point(
                round=done,
                losses=losses[run],
                probabilities=probabilities[run],
                share_active=float(matrices[run].mean()),
                validation=validations[run] if validations else None,
            )
            for run in range(self._replicas.n_runs)
        ]

    def state(self) -> dict[str, Tensor]:
        """Returns copies of what was collected."""
        nothing = np.empty((0, self._replicas.n_runs, self._n_tasks))
        failed = [-1 if step is None else step for step in self.failed]
        return {
            "last losses": torch.from_numpy(np.stack(list(self._last))),
            "losses since the last point": torch.from_numpy(
                np.concatenate([nothing, *self._stretch])
            ),
            "failed": torch.tensor(failed),
        }

    def load(self, state: TrainingState) -> None:
        """Takes up what was collected when the state was taken."""
        tensors = state.tensors
        self._last.extend(tensors["last losses"].numpy())
        # Of fewer rounds than a block has, where fewer are kept.
        self.last_block = tensors["last losses"][-ROUNDS_PER_BLOCK:].numpy().mean(axis=0)
        self._stretch = [tensors["losses since the last point"].numpy()]
        self._n_steps = int(tensors["steps"])
        self.n_points = state.n_points
        self.failed = [None if step < 0 else step for step in tensors["failed"].tolist()]

    def final_losses(self) -> Floats:
        """Returns each run's mean loss over tasks and the last rounds, ``[R]``."""
        mean: Floats = np.mean(list(self._last), axis=0)
        return mean
