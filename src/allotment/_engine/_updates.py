"""What follows each step: the moving average of weights, and what allocations do."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ..allocation import Allocation
from ..modules import TaskNetwork
from ._compact import compact, fill
from ._parameters import FlatParameters, Within


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


class AllocationUpdates:
    """Calls `advance` of allocations that do more than count batches, with each run's tensors.

    What it does to buffers is kept, be they changed in place or assigned. Runs are vmapped where
    that can be, which is found out here.
    """

    def __init__(self, parameters: FlatParameters) -> None:
        self._parameters = parameters
        self._within = Within(parameters.network)
        allocations = [layer.allocation for layer in parameters.network.modular_layers]
        self.any = any(type(a).advance is not Allocation.advance for a in allocations)
        self._is_vmapped = self.any and parameters.n_runs > 1 and self._can_be_vmapped()

    def _can_be_vmapped(self) -> bool:
        untouched = self._parameters.snapshot()
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("error")  # torch's, where it would go run by run as well
                vmap(self._advanced)(self._parameters.state("network."))
        except Exception:  # whatever a user's allocation raises
            return False
        finally:
            self._parameters.restore(untouched)
        return True

    @torch.no_grad()
    def take(self, n_batches: int) -> None:
        """Takes note of so many batches."""
        for _ in range(n_batches):
            if self._is_vmapped:
                after = vmap(self._advanced)(self._parameters.state("network."))
            else:
                runs = [self._advanced(own) for own in self._parameters.states("network.")]
                after = {name: torch.stack([own[name] for own in runs]) for name in runs[0]}
            for name, buffer in self._parameters.buffers.items():
                buffer.copy_(after[name])

    def _advanced(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Returns one run's buffers after a batch."""
        functional_call(self._within, state, (_advance,))  # leaves in `state` what they became
        return {name: state[f"network.{name}"] for name in self._parameters.buffers}


def _advance(network: TaskNetwork) -> None:
    for allocation in dict.fromkeys(layer.allocation for layer in network.modular_layers):
        if type(allocation).advance is not Allocation.advance:
            allocation.advance()
