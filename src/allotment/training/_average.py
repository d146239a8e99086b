"""A running mean of the weights, beside the weights that are trained."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor

from ._replicas import Replicas
from ._state import compact, fill


class Average:
    """Each run's weights and logits averaged over steps, older ones counting less.

    At each step the mean moves towards the weights by ``1 - keep`` of the way, and by more at
    first, so that it forgets where training began.
    """

    def __init__(self, replicas: Replicas, keep: float, tasks_per_step: int) -> None:
        self._replicas = replicas
        self._keep = keep
        self._tasks_per_step = tasks_per_step
        self._learnt = {group: flat.detach() for group, flat in replicas.learnt()}
        self._means = {group: flat.clone() for group, flat in self._learnt.items()}

    def restart(self) -> None:
        """Begins again at the present weights."""
        for group, mean in self._means.items():
            mean.copy_(self._learnt[group])

    def update(self) -> None:
        """Takes in the weights after a step."""
        n_steps = self._replicas.n_batches / self._tasks_per_step
        share = (9.0 / (10.0 + n_steps)).clamp_min(1.0 - self._keep)
        for group, mean in self._means.items():
            mean.lerp_(self._learnt[group], share)

    def settle(self) -> None:
        """Puts the mean in the place of the weights, for good."""
        for group, mean in self._means.items():
            self._learnt[group].copy_(mean)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Puts the mean in the place of the weights, for a while."""
        trained = {group: flat.clone() for group, flat in self._learnt.items()}
        self.settle()
        try:
            yield
        finally:
            for group, flat in trained.items():
                self._learnt[group].copy_(flat)

    def state(self) -> dict[str, Tensor]:
        """Returns a copy of the mean."""
        return compact("mean", self._means, self._replicas)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes to a state."""
        fill("mean", self._means, tensors, self._replicas)
