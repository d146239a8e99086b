"""The weights that did best on validation."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from .._engine import FlatParameters, compact, fill
from .._schema import Evaluation


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
