"""What a training has done so far, brought to the host once a block, and its best weights."""

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from .._engine import FlatParameters, compact, fill
from .._schema import Evaluation, Floats, LogEntry, TrainingState
from ..settings import ROUNDS_PER_BLOCK

N_ENTRIES = 300  # about so many log entries make a run's curve


class Tracker:
    """Collects the losses of ``R`` runs and sees which of them failed."""

    def __init__(self, parameters: FlatParameters, n_tasks: int, n_last_rounds: int) -> None:
        self._parameters = parameters
        self._n_tasks = n_tasks
        self._interval: list[Floats] = []  # [K, R, T] each
        self._last: deque[Floats] = deque(maxlen=n_last_rounds)  # [R] each, means over tasks
        self._n_steps = 0
        self.n_entries = 0
        self.failed: list[int | None] = [None] * parameters.n_runs
        self.last_block: Floats = np.full(parameters.n_runs, np.nan)  # each run's mean loss in it

    @property
    def is_amid(self) -> bool:
        """Whether there are losses that no entry has told yet."""
        return any(map(len, self._interval))

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
        self._interval.append(by_task)
        self._last.extend(by_task.mean(axis=2))
        for step, run in np.argwhere(~np.isfinite(values)):
            if self.failed[run] is None:
                self.failed[run] = self._n_steps + int(step)
        self._n_steps += len(values)
        self.last_block = values.mean(axis=0)

    def entries(self, done: int, validations: list[Evaluation] | None) -> list[LogEntry]:
        """Returns each run's log entry for the rounds since the last call."""
        losses = np.concatenate(self._interval).mean(axis=0)  # [R, T]
        self._interval = []
        self.n_entries += 1
        probabilities, matrices = self._parameters.gates()
        return [
            LogEntry(
                round=done,
                losses=losses[run],
                probabilities=probabilities[run],
                share_active=float(matrices[run].mean()),
                validation=validations[run] if validations else None,
            )
            for run in range(self._parameters.n_runs)
        ]

    def state(self) -> dict[str, Tensor]:
        """Returns copies of what was collected."""
        nothing = np.empty((0, self._parameters.n_runs, self._n_tasks))
        failed = [-1 if step is None else step for step in self.failed]
        return {
            "last losses": torch.from_numpy(np.stack(list(self._last))),
            "losses since the last entry": torch.from_numpy(
                np.concatenate([nothing, *self._interval])
            ),
            "failed": torch.tensor(failed),
        }

    def load(self, state: TrainingState) -> None:
        """Takes up what was collected when the state was taken."""
        tensors = state.tensors
        self._last.extend(tensors["last losses"].numpy())
        # Of fewer rounds than a block has, where fewer are kept.
        self.last_block = tensors["last losses"][-ROUNDS_PER_BLOCK:].numpy().mean(axis=0)
        self._interval = [tensors["losses since the last entry"].numpy()]
        self._n_steps = int(tensors["steps"])
        self.n_entries = state.n_entries
        self.failed = [None if step < 0 else step for step in tensors["failed"].tolist()]

    def final_losses(self) -> Floats:
        """Returns each run's mean loss over tasks and the last rounds, ``[R]``."""
        mean: Floats = np.mean(list(self._last), axis=0)
        return mean


class BestCheckpoint:
    """Remembers each run's weights from the round at which it did best on validation."""

    def __init__(self, parameters: FlatParameters) -> None:
        self._parameters = parameters
        self._scores = [float("-inf")] * parameters.n_runs
        self._snapshot: dict[str, Tensor] | None = None
        self.rounds: list[int | None] = [None] * parameters.n_runs

    def consider(self, validations: Sequence[Evaluation], done: int) -> None:
        """Keeps the present weights of the runs that are better than they were."""
        scores = [_score(validation) for validation in validations]
        improved = [new > old for new, old in zip(scores, self._scores, strict=True)]
        now = self._parameters.snapshot()
        if self._snapshot is None:
            self._snapshot = now
        mask = torch.tensor(improved, device=self._parameters.device)
        for name, value in self._snapshot.items():
            row_mask = mask.view(-1, *[1] * (value.ndim - 1))
            torch.where(row_mask, now[name], value, out=value)
        for run, is_better in enumerate(improved):
            if is_better:
                self._scores[run], self.rounds[run] = scores[run], done

    def state(self) -> dict[str, Tensor]:
        """Returns copies of what is remembered."""
        rounds = [-1 if done is None else done for done in self.rounds]
        tensors = {
            "best scores": torch.tensor(self._scores, dtype=torch.float64),
            "best rounds": torch.tensor(rounds),
        }
        return tensors | compact("best", self._snapshot or {}, self._parameters)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Remembers what was remembered when the state was taken."""
        self._scores = tensors["best scores"].tolist()
        rounds = tensors["best rounds"].tolist()
        self.rounds = [None if done < 0 else done for done in rounds]
        if any(name.startswith("best/") for name in tensors):
            self._snapshot = self._parameters.snapshot()
            fill("best", self._snapshot, tensors, self._parameters)

    def restore(self) -> None:
        """Puts the best weights back, where any were kept."""
        if self._snapshot is not None:
            self._parameters.restore(self._snapshot)


def _score(validation: Evaluation) -> float:
    """Returns the mean accuracy over tasks; where not all classify, the mean loss, negative.

    A NaN is never best.
    """
    accuracies = validation.accuracies
    if accuracies is not None and not np.isnan(accuracies).any():
        return float(accuracies.mean())
    return -float(validation.losses.mean())
