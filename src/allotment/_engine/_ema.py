"""An exponential moving average of the weights, beside the weights that are trained."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor

from ._compact import compact, fill
from ._parameters import FlatParameters


class EMA:
    """Each run's weights and logits averaged over steps, older ones counting less.

    At each step the mean moves towards the weights by ``1 - decay`` of the way, and by more at
    first, so that it forgets where training began.
    """

    def __init__(self, parameters: FlatParameters, decay: float, tasks_per_step: int) -> None:
        self._parameters = parameters
        self._decay = decay
        self._tasks_per_step = tasks_per_step
        self._learnt = {group: flat.detach() for group, flat in parameters.learnt()}
        self._averages = {group: flat.clone() for group, flat in self._learnt.items()}

    def restart(self) -> None:
        """Begins again at the present weights."""
        for group, mean in self._averages.items():
            mean.copy_(self._learnt[group])

    def update(self) -> None:
        """Takes in the weights after a step."""
        n_steps = self._parameters.n_batches / self._tasks_per_step
        share = (9.0 / (10.0 + n_steps)).clamp_min(1.0 - self._decay)
        for group, mean in self._averages.items():
            mean.lerp_(self._learnt[group], share)

    def settle(self) -> None:
        """Puts the mean in the place of the weights, for good."""
        for group, mean in self._averages.items():
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
        return compact("ema", self._averages, self._parameters)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes to a state."""
        fill("ema", self._averages, tensors, self._parameters)
