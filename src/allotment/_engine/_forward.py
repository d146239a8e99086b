"""The loss of one run on one task's batch, as a function of the run's tensors."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from .._checks import described
from .._ops import on_streams
from ..modules import Noise, TaskNetwork
from ._batch import Batch
from ._losses import Losses, LossModule, StreamedLosses
from ._parameters import FlatParameters, Within
from ._penalties import Budgets, PenaltySchedule
from ._run import Run

# From learnt tensors and a batch to each run's losses and charges.
Strategy = Callable[[Sequence[Tensor], Batch], tuple[Tensor, Tensor]]


class Forward:
    """Computes the loss of one run, and what its gates are charged.

    ``shares_inputs`` says whether the tasks of a joint step have the same inputs; then what comes
    before the first gates is computed once for all of them. ``shares_streams`` says whether a
    penalty may have a stream beside the loss: where runs have the streams, they need them for
    their branches. ``why_apart`` says why runs cannot be one tensor program, if so.
    ``is_compiled`` says whether torch fuses the operations of a network's pass.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        losses: Losses | StreamedLosses,
        penalties: PenaltySchedule,
        budget_scope: str,
        *,
        is_joint: bool,
        shares_inputs: bool,
        shares_streams: bool,
        why_apart: str = "",
        is_compiled: bool = False,
    ) -> None:
        self.parameters = parameters
        self.losses = losses
        self.penalties = penalties
        self._is_global = budget_scope == "global"
        self._shares_streams = shares_streams
        self._module = LossModule(
            parameters.network, losses, parameters.mixed_precision, is_compiled=is_compiled
        )
        self._within = Within(parameters.network)
        self.is_joint = is_joint
        self.shares_inputs = shares_inputs
        self.why_apart = why_apart
        # From a run's state, its task (of a joint step, all tasks) and batch to loss and charges.
        self.of_run = self._all_tasks if is_joint else self._one_task

    def _all_tasks(
        self,
        state: dict[str, Tensor],
        tasks: list[int] | Tensor,
        x: Any,
        y: tuple[Tensor, ...],
        noise: Noise,
        budgets: Budgets,
        run: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Returns the losses and the charges of a joint step, ``[T]`` each."""
        if isinstance(tasks, Tensor):
            x_dim = None if self.shares_inputs else 0
            in_dims = (None, 0, x_dim, 0, noise.dims, None)
            one = partial(self._one_task, run=run)
            batched = vmap(one, in_dims=in_dims, randomness="different")
            found: tuple[Tensor, Tensor] = batched(state, tasks, x, y, noise, budgets)
            return found
        batch = Batch(torch.empty(0), x, y, noise)
        parts = [batch.part(i, task, self.shares_inputs) for i, task in enumerate(tasks)]
        results = [
            self._one_task(state, task, own_x, own_y, own_noise, budgets, run)
            for task, own_x, own_y, own_noise in parts
        ]
        losses, charges = zip(*results, strict=True)
        return torch.stack(losses), torch.stack(charges)

    def _one_task(
        self,
        state: dict[str, Tensor],
        task: int | Tensor,
        x: Any,
        y: tuple[Tensor, ...],
        noise: Noise,
        budgets: Budgets,
        run: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Returns the loss and the charges of one task's batch, one number each."""
        arguments = (task, x, y, noise, run)
        if not self.penalties.any:
            loss, *charges = functional_call(self._module, state, arguments)
        else:
            calls = [
                partial(functional_call, self._module, state, arguments),
                partial(self._penalty, state, task, budgets),
            ]
            # Penalties are many small operations that need nothing of the pass.
            both = on_streams(calls, []) if self._shares_streams else [call() for call in calls]
            (loss, *charges), penalty = both
            charges = [*charges, *penalty]
        return loss, sum(charges[1:], charges[0]) if charges else torch.zeros_like(loss)

    def _penalty(
        self, state: dict[str, Tensor], task: int | Tensor, budgets: Budgets
    ) -> tuple[Tensor]:
        def probabilities_of(network: TaskNetwork) -> Tensor:
            return network.probabilities(None if self._is_global else task)

        probabilities = functional_call(self._within, state, (probabilities_of,))
        return (self.penalties(probabilities, task, budgets, self.parameters.n_batches),)


class Found(NamedTuple):
    """What a batch leads to."""

    losses: Tensor  # each run's, as they are: [R], or [R, T] in a joint step
    observed: Tensor  # those that allocations take note of
    gradients: list[Tensor]  # to follow, ``[R, P]`` each


class GradientPass:
    """Turns the losses of ``R`` runs into gradients: weighed, charged and clipped.

    ``groups`` are the names of the flat tensors that are learnt.
    """

    def __init__(self, runs: Sequence[Run], device: torch.device, groups: Sequence[str]) -> None:
        settings = runs[0].settings
        self._has_two_levels = settings.optimization.allocation_held_out > 0
        self._are_allocated = [group == "allocation" for group in groups]
        self._clip_norm = settings.optimization.clip_norm
        self._balancing = settings.loss_balancing
        self._weights = _task_weights(runs, device)
        if self._balancing is not None:
            self._balancing.start(len(runs), len(runs[0].tasks), device)

    def __call__(self, strategy: Strategy, learnt: Sequence[Tensor], batch: Batch) -> Found:
        """Returns losses and gradients of a batch, averaged over its pieces."""
        if self._has_two_levels:
            return self._of_two_levels(strategy, learnt, batch)
        found = []
        for piece in (batch, *batch.further):
            losses, charges = strategy(learnt, piece)  # [R], or [R, T] in a joint step
            total = prod(self.factors(losses, piece.tasks), start=losses) + charges
            found.append([losses.detach(), *self._of_losses(total, learnt)])
        if len(found) > 1:
            found = [[torch.stack(parts).mean(dim=0) for parts in zip(*found, strict=True)]]
        losses, *gradients = found[0]
        return Found(losses, losses, clipped_per_run(gradients, self._clip_norm))

    def _of_losses(self, losses: Tensor, learnt: Sequence[Tensor]) -> list[Tensor]:
        """Returns the gradients of losses ``[R]``, or ``[R, T]`` in a joint step."""
        if self._balancing is not None and self._balancing.needs_gradients:
            return _combined(self._balancing.combine, losses, learnt)
        # The runs share nothing, so the gradient of the sum holds each run's own gradient.
        # A joint step follows the mean over its tasks.
        return _gradients_of(losses.sum() / losses[0].numel(), learnt)

    def _of_two_levels(self, strategy: Strategy, learnt: Sequence[Tensor], batch: Batch) -> Found:
        """Returns gradients of allocations on the held-out batch, and all others on the batch."""
        (held_out,) = batch.further
        losses, _ = strategy(learnt, batch)
        n_tasks = losses[0].numel()
        factors = self.factors(losses, batch.tasks)
        # Before the other pass, which may change buffers that this gradient needs.
        found = self._of_groups(False, prod(factors, start=losses).sum() / n_tasks, learnt)
        observed, charges = strategy(learnt, held_out)
        total = prod(factors, start=observed) + charges
        found |= self._of_groups(True, total.sum() / n_tasks, learnt)
        gradients = clipped_per_run([found[i] for i in range(len(learnt))], self._clip_norm)
        return Found(losses.detach(), observed.detach(), gradients)

    def _of_groups(
        self, are_allocated: bool, total: Tensor, learnt: Sequence[Tensor]
    ) -> dict[int, Tensor]:
        """Returns the gradients of the allocations' tensors, or of all others, by their place."""
        places = [place for place, own in enumerate(self._are_allocated) if own == are_allocated]
        own = [learnt[place] for place in places]
        return dict(zip(places, _gradients_of(total, own), strict=True)) if own else {}

    def _balanced(self, losses: Tensor, tasks: Tensor) -> Tensor:
        """Returns the weights of a loss balancing, ``[R, K]``, once they keep its promises."""
        assert self._balancing is not None
        before = self._balancing.state()
        own = self._balancing.weights(losses, tasks.view(losses.shape))
        if not isinstance(own, Tensor) or own.shape != losses.shape:
            found = list(own.shape) if isinstance(own, Tensor) else described(own)
            raise BalancingError(
                "`weights` of a loss balancing should return a tensor of the shape of the losses, "
                f"{list(losses.shape)}. Found {found}."
            )
        for name, tensor in self._balancing.state().items():
            if before.get(name) is not tensor:
                raise BalancingError(
                    "`state` of a loss balancing should hold tensors that are changed in place, "
                    f"since a recorded step sees no others. Found `{name}` replaced."
                )
        return own

    @property
    def has_factors(self) -> bool:
        """Whether losses are multiplied by anything."""
        return self._weights is not None or self._balancing is not None

    def factors(self, losses: Tensor, tasks: Tensor) -> list[Tensor]:
        """Returns what losses ``[R, K]`` are multiplied by, one factor after another."""
        rows = (len(losses), -1)
        factors = []
        if self._weights is not None:
            factors.append(self._weights.gather(1, tasks.view(rows)).view_as(losses))
        if self._balancing is not None:
            weighed = prod(factors, start=losses.detach())
            factors.append(self._balanced(weighed.view(rows), tasks).view_as(losses))
        return factors


class BalancingError(ValueError):
    """A loss balancing that breaks a promise of its interface."""


def _task_weights(runs: Sequence[Run], device: torch.device) -> Tensor | None:
    """Returns what each run's losses are multiplied by, ``[R, T]``; None where all are 1."""
    weights = [[task.weight for task in run.tasks] for run in runs]
    is_plain = all(weight == 1.0 for row in weights for weight in row)
    return None if is_plain else torch.tensor(weights, device=device)


def _gradients_of(total: Tensor, learnt: Sequence[Tensor], *, again: bool = False) -> list[Tensor]:
    """Returns gradients; what a batch does not reach, such as another task's head, has zeros."""
    found = torch.autograd.grad(
        total, learnt, retain_graph=again, allow_unused=True, materialize_grads=True
    )
    return list(found)


def _combined(
    combine: Callable[[Tensor], Tensor], losses: Tensor, learnt: Sequence[Tensor]
) -> list[Tensor]:
    """Returns the gradients that a loss balancing makes of those of all tasks, ``[R, P]`` each."""
    by_task = [_gradients_of(column.sum(), learnt, again=True) for column in losses.unbind(1)]
    joined = torch.stack([torch.cat(gradients, dim=1) for gradients in by_task], dim=1)  # [R, T, P]
    chosen = torch.stack([combine(own) for own in joined])
    return list(chosen.split([flat.shape[1] for flat in learnt], dim=1))


def clipped_per_run(gradients: Sequence[Tensor], norm: float | None) -> list[Tensor]:
    """Returns gradients ``[R, P]``, each run's shortened to ``norm`` where it is longer."""
    if norm is None:
        return list(gradients)
    squares = torch.stack([gradient.square().sum(dim=1) for gradient in gradients])
    factor = (norm / (squares.sum(dim=0).sqrt() + 1e-6)).clamp_max(1.0)  # [R]
    return [gradient * factor.unsqueeze(1) for gradient in gradients]
