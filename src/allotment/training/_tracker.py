"""What a training has done so far, brought to the host once a block, and its best weights."""

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._engine import FlatParameters, compact, fill
from .._schema import Evaluation, Floats, LogEntry, TrainingState
from ..settings import ROUNDS_PER_BLOCK, TrainingSettings
from ..tasks import Task

N_ENTRIES = 300  # about so many log entries make a run's curve


def entry_interval(rounds: int) -> int:
    """Returns how many rounds lie between the log entries of a run of so many.

    >>> entry_interval(100), entry_interval(100_000)
    (10, 340)
    """
    return ROUNDS_PER_BLOCK * ceil(rounds / (N_ENTRIES * ROUNDS_PER_BLOCK))


class Tracker:
    """Collects the losses of ``R`` runs and sees which of them failed."""

    def __init__(self, parameters: FlatParameters, n_tasks: int, n_last_rounds: int) -> None:
        self._parameters = parameters
        self._n_tasks = n_tasks
        self._interval: list[Floats] = []  # [K, R, T] each, sums over a task's batches in a round
        self._counts: list[Floats] = []  # of those batches
        self._last: deque[Floats] = deque(maxlen=n_last_rounds)  # [R] each, means over tasks
        self._n_steps = 0
        self.n_entries = 0
        self.failed: list[int | None] = [None] * parameters.n_runs
        # Each run's probabilities and evaluation matrix at the last entry, [T, C] each.
        self.gates: list[tuple[Floats, Floats]] = []
        self.last_block: Floats = np.full(parameters.n_runs, np.nan)  # each run's mean loss in it

    def add(self, losses: Tensor, tasks: Tensor) -> None:
        """Takes the losses ``[S, R]`` of a block."""
        values = losses.cpu().double().numpy()
        order = tasks[: len(values)].cpu().numpy()
        sums, counts = _by_task(values, order, self._n_tasks)
        self._interval.append(sums)
        self._counts.append(counts)
        means = sums.sum(axis=2) / counts.sum(axis=2)  # [K, R]
        self._last.extend(means)
        for step, run in np.argwhere(~np.isfinite(values)):
            if self.failed[run] is None:
                self.failed[run] = self._n_steps + int(step)
        self._n_steps += len(values)
        self.last_block = means.mean(axis=0)

    def see_weights(self) -> None:
        """Counts runs as failed whose last update left weights that are not finite.

        No loss has told it: that of the next batch would have.
        """
        weights = self._parameters.parameters().values()  # buffers may be infinite, as scores are
        are_finite = [weight.detach().flatten(1).isfinite().all(dim=1) for weight in weights]
        if not are_finite:
            return
        for run, is_sound in enumerate(torch.stack(are_finite).all(dim=0).tolist()):
            if not is_sound and self.failed[run] is None:
                self.failed[run] = self._n_steps - 1

    def entries(
        self, done: int, validations: list[Evaluation] | None = None
    ) -> list[LogEntry] | None:
        """Returns each run's log entry for the rounds since the last call; None without any."""
        if not any(map(len, self._interval)):
            return None
        with np.errstate(invalid="ignore"):  # a task that was not drawn has no loss
            losses = np.concatenate(self._interval).sum(0) / np.concatenate(self._counts).sum(0)
        self._interval, self._counts = [], []
        self.n_entries += 1
        probabilities, matrices = self._parameters.gates()
        self.gates = list(zip(probabilities, matrices, strict=True))
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
            "batches since the last entry": torch.from_numpy(
                np.concatenate([nothing, *self._counts])
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
        counts = tensors.get("batches since the last entry")  # not in states of version 0.1
        self._counts = [np.ones_like(self._interval[0]) if counts is None else counts.numpy()]
        self._n_steps = int(tensors["steps"])
        self.n_entries = state.n_entries
        self.failed = [None if step < 0 else step for step in tensors["failed"].tolist()]

    def final_losses(self) -> Floats:
        """Returns each run's mean loss over tasks and the last rounds, ``[R]``."""
        mean: Floats = np.mean(list(self._last), axis=0)
        return mean


def _by_task(losses: Floats, tasks: NDArray[np.int64], n_tasks: int) -> tuple[Floats, Floats]:
    """Returns sums of losses ``[S, R]`` and how many they are, by round and task, ``[K, R, T]``.

    A batch of task -1 is of none.
    """
    rounds = losses.reshape(-1, n_tasks, losses.shape[1])  # [K, T, R] as they came
    order = tasks.reshape(rounds.shape)
    sums, counts = np.zeros(rounds.shape), np.zeros(rounds.shape)
    k, place, r = np.nonzero(order >= 0)
    np.add.at(sums, (k, order[k, place, r], r), rounds[k, place, r])
    np.add.at(counts, (k, order[k, place, r], r), 1.0)
    return sums.swapaxes(1, 2), counts.swapaxes(1, 2)


class BestCheckpoint:
    """Remembers each run's weights from the round at which it did best on validation.

    A run that had no better check for as long as ``patience`` says is over: what the program goes
    on to do with it, beside others, is not looked at any more.
    """

    def __init__(
        self, parameters: FlatParameters, tasks: Sequence[Task], settings: TrainingSettings
    ) -> None:
        self._parameters = parameters
        self._checked = np.array([task.held_out("validation") is not None for task in tasks])
        self._by = settings.best_by
        self._patience = settings.patience
        self._n_worse = [0] * parameters.n_runs  # checks since the best one
        self.over: list[int | None] = [None] * parameters.n_runs  # after which round
        self._scores = [float("-inf")] * parameters.n_runs
        self._snapshot: dict[str, Tensor] | None = None
        self.rounds: list[int | None] = [None] * parameters.n_runs

    def consider(self, validations: Sequence[Evaluation], done: int) -> None:
        """Keeps the present weights of the runs that are better than they were."""
        improved = [
            self._is_better(run, score(validation, self._checked, self._by), done)
            for run, validation in enumerate(validations)
        ]
        kept = self._snapshot or self._parameters.snapshot()
        self._snapshot = self._chosen([not is_better for is_better in improved], kept)

    def _is_better(self, run: int, new: float, done: int) -> bool:
        """Notes a run's score, and whether it was the last to be looked at."""
        if self.over[run] is not None:
            return False
        if new > self._scores[run]:
            self._scores[run], self.rounds[run], self._n_worse[run] = new, done, 0
            return True
        self._n_worse[run] += 1
        if self._patience and self._n_worse[run] >= self._patience:
            self.over[run] = done
        return False

    def state(self) -> dict[str, Tensor]:
        """Returns copies of what is remembered."""
        rounds = [-1 if done is None else done for done in self.rounds]
        tensors = {
            "best scores": torch.tensor(self._scores, dtype=torch.float64),
            "best rounds": torch.tensor(rounds),
            "checks since the best": torch.tensor(self._n_worse),
            "over": torch.tensor([-1 if done is None else done for done in self.over]),
        }
        return tensors | compact("best", self._snapshot or {}, self._parameters)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Remembers what was remembered when the state was taken."""
        self._scores = tensors["best scores"].tolist()
        rounds = tensors["best rounds"].tolist()
        self.rounds = [None if done < 0 else done for done in rounds]
        if "over" in tensors:  # not in states of version 0.1
            self._n_worse = tensors["checks since the best"].tolist()
            self.over = [None if done < 0 else done for done in tensors["over"].tolist()]
        if any(name.startswith("best/") for name in tensors):
            self._snapshot = self._parameters.snapshot()
            fill("best", self._snapshot, tensors, self._parameters)

    def restore(self, failed: Sequence[int | None]) -> None:
        """Puts the best weights back; a run whose score was never a number has its last ones.

        Of runs that ``failed`` it is known why; else it is told.
        """
        if self._snapshot is not None:
            was_best = [done is not None for done in self.rounds]
            if any(not own and at is None for own, at in zip(was_best, failed, strict=True)):
                ended = ", and `patience` ended the training" if any(self.over) else ""
                warnings.warn(
                    "What `keep_best` goes by should be a number at some check. Found NaN at all "
                    f"of them for {self._by or 'the validation losses'}: the last weights are kept"
                    f"{ended}.",
                    stacklevel=4,
                )
            self._parameters.restore(self._chosen(was_best, self._snapshot))

    def _chosen(self, runs: Sequence[bool], others: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns ``others`` for these runs, and what the rest have now."""
        mask = torch.tensor(runs, device=self._parameters.device)
        now = self._parameters.snapshot()
        for name, value in now.items():
            row_mask = mask.view(-1, *[1] * (value.ndim - 1))
            torch.where(row_mask, others[name], value, out=value)
        return now


def score(validation: Evaluation, checked: NDArray[np.bool_], by: str = "") -> float:
    """Returns how good a check is, the larger the better: a mean over the tasks that have it.

    ``by`` names a metric, "accuracy" or "loss", with "-" in front where the smallest is best; with
    none, it is the accuracy where all ``checked`` tasks classify, and else the loss. A NaN is never
    best.
    """
    sign, name = (-1.0, by[1:]) if by.startswith("-") else (1.0, by)
    known = {"loss": validation.losses[checked]}
    known |= {k: values[~np.isnan(values)] for k, values in validation.metrics.items()}
    if validation.accuracies is not None:
        accuracies = validation.accuracies[checked]
        known["accuracy"] = accuracies[~np.isnan(accuracies)]
    if not name:
        classifies = len(known.get("accuracy", ())) == len(known["loss"])
        sign, name = (1.0, "accuracy") if classifies else (-1.0, "loss")
    if name not in known:
        raise ValueError(
            f"`keep_best` should be one of {', '.join(map(repr, known))}, with a minus in front "
            f"where the smallest is best. Found `keep_best = {by!r}`."
        )
    value = sign * float(known[name].mean()) if len(known[name]) else np.nan
    return value if value == value else float("-inf")
