"""The loss of one run on one task's batch, as a function of the run's tensors."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from .._ops import on_streams
from ..allocation import Allocation
from ..modules import Noise, Pass, TaskNetwork
from ._losses import Losses
from ._parameters import FlatParameters, Within
from ._penalties import Budgets, PenaltySchedule
from ._precision import rounded, widened


class Batch(NamedTuple):
    """What one step of ``R`` runs is computed from; every tensor has the runs in front.

    In a joint step the tasks come second, ``[R, T, ...]``.
    """

    tasks: Tensor  # [R]
    inputs: Tensor  # [R, B, ...]
    targets: tuple[Tensor, ...]  # [R, B, ...] of every spec; the task's own counts
    noise: Noise  # [R, N], [R, B, D] and [R, B, N]

    def part(self, index: int, task: int | Tensor) -> tuple[Any, ...]:
        """Returns the arguments of one run, or of one task in a run."""
        targets = tuple(part[index] for part in self.targets)
        noise = Noise(*(None if part is None else part[index] for part in self.noise))
        return task, self.inputs[index], targets, noise


def noise_dims(noise: Noise) -> Any:
    """Returns where `vmap` finds the dimension to batch over: in front."""
    return Noise(*(None if part is None else 0 for part in noise))  # type: ignore[arg-type]


class Forward:
    """Computes the loss of one run, and what its gates are charged.

    ``shares_streams`` says whether a penalty may have a stream beside the loss: where runs have
    the streams, they need them for their branches.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        losses: Losses,
        penalties: PenaltySchedule,
        budget_scope: str,
        *,
        is_joint: bool,
        shares_streams: bool,
    ) -> None:
        self.parameters = parameters
        self.losses = losses
        self.penalties = penalties
        self._is_global = budget_scope == "global"
        self._is_joint = is_joint
        self._shares_streams = shares_streams
        self._within = Within(parameters.network)
        allocations = (layer.allocation for layer in parameters.network.modular_layers)
        self._has_auxiliary = any(
            type(allocation).auxiliary_loss is not Allocation.auxiliary_loss
            for allocation in allocations
        )

    def __call__(
        self,
        state: dict[str, Tensor],
        tasks: int | list[int] | Tensor,
        x: Any,
        y: tuple[Tensor, ...],
        noise: Noise,
        budgets: Budgets,
        run: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Returns the loss and the charges, one number each; in a joint step ``[T]`` each."""
        if not self._is_joint:
            return self._one(state, tasks, x, y, noise, budgets, run)  # type: ignore[arg-type]
        if isinstance(tasks, Tensor):
            in_dims = (None, 0, 0, 0, noise_dims(noise), None)
            batched = vmap(partial(self._one, run=run), in_dims=in_dims, randomness="different")
            found: tuple[Tensor, Tensor] = batched(state, tasks, x, y, noise, budgets)
            return found
        assert isinstance(tasks, list)
        batch = Batch(torch.empty(0), x, y, noise)
        results = [
            self._one(state, *batch.part(i, task), budgets, run) for i, task in enumerate(tasks)
        ]
        losses, charges = zip(*results, strict=True)
        return torch.stack(losses), torch.stack(charges)

    def _one(
        self,
        state: dict[str, Tensor],
        task: int | Tensor,
        x: Any,
        y: tuple[Tensor, ...],
        noise: Noise,
        budgets: Budgets,
        run: int = 0,
    ) -> tuple[Tensor, Tensor]:
        def loss_of(network: TaskNetwork) -> tuple[Tensor, ...]:
            running = Pass(task, noise, is_step=True)
            outputs = network.compute(rounded(x, self.parameters.mixed_precision), running)
            loss = self.losses(widened(outputs), y, task, run)
            return loss, *self._auxiliary(running, loss)

        def penalty_of(network: TaskNetwork) -> tuple[Tensor, ...]:
            probabilities = network.probabilities(None if self._is_global else task)
            return (self.penalties(probabilities, budgets, self.parameters.n_batches),)

        parts = [loss_of, penalty_of] if self.penalties.any else [loss_of]
        calls = [partial(functional_call, self._within, state, (part,)) for part in parts]
        # Penalties are many small operations that need nothing of the pass.
        results = on_streams(calls, []) if self._shares_streams else [call() for call in calls]
        (loss, *auxiliary), *penalties = results
        charges = [*auxiliary, *(penalty for (penalty,) in penalties)]
        return loss, sum(charges[1:], charges[0]) if charges else torch.zeros_like(loss)

    def _auxiliary(self, running: Pass, loss: Tensor) -> Sequence[Tensor]:
        """Returns what allocations add to the loss of a pass."""
        if not self._has_auxiliary:
            return []
        found = (
            used.allocation.auxiliary_loss(running.task, loss, used.weights)
            for used in running.used
        )
        return [extra for extra in found if extra is not None]
