"""What allocations do once a training batch has passed, for all runs."""

import warnings

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ..allocation import Allocation
from ..modules import TaskNetwork
from ._parameters import FlatParameters, Within


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
