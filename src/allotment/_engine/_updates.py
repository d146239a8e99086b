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
from ._parameters import FlatParameters, Within, changes_by_batch


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
    """Calls `observe` and an `advance` that does more than count batches, with each run's tensors.

    What it does to buffers is kept, be they changed in place or assigned. Runs are vmapped where
    that can be, which is found out here.
    """

    def __init__(self, parameters: FlatParameters) -> None:
        self._parameters = parameters
        self._within = Within(parameters.network)
        self.any = bool(_changing(parameters.network))
        self._is_vmapped = self.any and parameters.n_runs > 1 and self._can_be_vmapped()

    def _can_be_vmapped(self) -> bool:
        untouched = self._parameters.snapshot()
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("error")  # torch's, where it would go run by run as well
                none = torch.zeros(self._parameters.n_runs, device=self._parameters.device)
                state = self._parameters.state("network.")
                vmap(self._advanced)(state, none.long(), none, none.bool())
        except Exception:  # whatever a user's allocation raises
            return False
        finally:
            self._parameters.restore(untouched)
        return True

    @torch.no_grad()
    def take(self, tasks: Tensor, losses: Tensor, are_known: Tensor | None = None) -> None:
        """Takes note of the batches of a step: their tasks and their losses, ``[R, K]`` each.

        ``are_known`` says which losses are those of some label; None: all are.
        """
        # Tasks lie on the CPU where batches are fetched one by one.
        parts = [tasks.to(losses.device), losses, *([] if are_known is None else [are_known])]
        for told in zip(*(part.unbind(1) for part in parts), strict=True):
            if self._is_vmapped:
                after = vmap(self._advanced)(self._parameters.state("network."), *told)
            else:
                each = zip(self._parameters.states("network."), *told, strict=True)
                runs = [self._advanced(*own) for own in each]
                after = {name: torch.stack([own[name] for own in runs]) for name in runs[0]}
            for name, buffer in self._parameters.buffers.items():
                buffer.copy_(after[name])

    def _advanced(self, state: dict[str, Tensor], *told: Tensor) -> dict[str, Tensor]:
        """Returns one run's buffers after a batch, given what `take` is given of it."""
        # It leaves in `state` what they became.
        functional_call(self._within, state, (lambda network: _advance(network, *told),))
        return {name: state[f"network.{name}"] for name in self._parameters.buffers}


def _changing(network: TaskNetwork) -> list[Allocation]:
    """Returns the allocations that a batch changes by more than a count."""
    allocations = dict.fromkeys(layer.allocation for layer in network.modular_layers)
    return [each for each in allocations if changes_by_batch(each)]


def _advance(
    network: TaskNetwork, task: Tensor, loss: Tensor, is_known: Tensor | None = None
) -> None:
    for allocation in _changing(network):
        if is_known is None:
            allocation.observe(task, loss)
        else:
            _observe_where(is_known, allocation, task, loss)
        allocation.advance()


def _observe_where(is_known: Tensor, allocation: Allocation, task: Tensor, loss: Tensor) -> None:
    """Has an allocation observe a loss; what it changes stays where the loss is known."""
    before = {name: buffer.clone() for name, buffer in allocation.named_buffers()}
    allocation.observe(task, loss)
    for name, buffer in list(allocation.named_buffers()):
        path, _, leaf = name.rpartition(".")
        kept = torch.where(is_known, buffer, before[name])
        setattr(allocation.get_submodule(path), leaf, kept)
