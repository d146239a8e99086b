"""The weights that did best on validation."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .._progress import Evaluation
from ._replicas import Replicas


class Best:
    """Remembers each run's weights from the round at which it did best on validation."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._scores = [float("-inf")] * replicas.n_runs
        self._snapshot: dict[str, Tensor] | None = None
        self.rounds: list[int | None] = [None] * replicas.n_runs

    def consider(self, validations: Sequence[Evaluation], done: int) -> None:
        """Keeps the present weights of the runs that are better than they were."""
        scores = [_score(validation) for validation in validations]
        improved = [new > old for new, old in zip(scores, self._scores, strict=True)]
        now = self._replicas.snapshot()
        if self._snapshot is None:
            self._snapshot = now
        mask = torch.tensor(improved, device=self._replicas.device)
        for name, value in self._snapshot.items():
            row_mask = mask.view(-1, *[1] * (value.ndim - 1))
            torch.where(row_mask, now[name], value, out=value)
        for run, is_better in enumerate(improved):
            if is_better:
                self._scores[run], self.rounds[run] = scores[run], done

    def restore(self) -> None:
        """Puts the best weights back, where any were kept."""
        if self._snapshot is not None:
            self._replicas.restore(self._snapshot)


def _score(validation: Evaluation) -> float:
    """Returns the mean accuracy over tasks, or the mean loss, negative; a NaN is never best."""
    if validation.accuracies is not None:
        return float(validation.accuracies.mean())
    return -float(validation.losses.mean())
