"""What the tests of ways of sharing have in common: networks of them, trained in several ways."""

from collections.abc import Callable
from typing import Any

import torch
from pytest import approx, mark, param
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.testing import assert_close

from allotment.allocation import Allocation
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.settings import TrainingSettings
from tests.engine.test_trainer import assert_one_program_of_plain_loops, assert_trained_plainly
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    assert_one_program,
    weights_of,
)

Make = Callable[[], Allocation]  # for two tasks, and components of N_INPUTS features
Build = Callable[[], MultiTaskNetwork]

# No penalties: what is charged for a share of exactly 0 has no plain form.
PLAIN = SETTINGS.changed(rounds=8, allocation_learning_rate=0.05, weight_decay=0.3, clip_norm=0.5)

both_schedules = mark.parametrize("schedule", ["alternating", param("joint", marks=mark.slow)])


def assert_runs_together_end_as_one_alone(make: Make, **changes: Any) -> dict[str, Tensor]:
    """Asserts that a run of two, one program, ends as one that is computed alone and eagerly.

    The caller asks for double precision. Returns the run's state.
    """
    settings = SETTINGS.changed(**{"rounds": 6, "allocation_learning_rate": 0.05} | changes)

    def network() -> Any:
        return a_network(make())

    runs = [a_run(seed, settings, build=network) for seed in range(2)]
    together = assert_one_program(runs)[0].weights
    alone = weights_of(a_run(0, settings.changed(trace=False), build=network))
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        assert_close(together[name], value, rtol=0, atol=1e-9, msg=f"{name}: {{}}".format)
    return alone


def assert_runs_train_together(
    build: Build, schedule: str = "alternating", settings: TrainingSettings = PLAIN
) -> None:
    """Asserts that two runs are one program, and end as plainly written loops do.

    The caller asks for double precision. A run alone ends the same.
    """
    own = settings.changed(schedule=schedule)
    runs = [a_run(seed, own, build=build) for seed in range(2)]
    assert_one_program_of_plain_loops(runs)
    assert_trained_plainly(runs[0], weights_of(a_run(0, own, build=build)), atol=1e-9)


def assert_every_parameter_moves(build: Build) -> None:
    """Asserts that training for a few steps changes every parameter of the allocation."""
    run = a_run(0, PLAIN, build=build)
    (layer,) = run.network.modular_layers
    start = {name: value.clone() for name, value in layer.allocation.named_parameters()}
    weights = weights_of(run)
    assert start
    for name, value in start.items():
        assert not torch.equal(weights[f"layers.0.allocation.{name}"], value), name


def assert_mixes_by_example(layer: ModularLayer, x: Tensor, task: int) -> None:
    """Asserts that a layer's output is each example's own weighted sum."""
    components: list[nn.Module] = list(layer.components)
    weights = layer.allocation.weights(task, x)
    outputs = torch.stack([component(x) for component in components], dim=1)  # [B, C, ...]
    expected = torch.einsum("bc,bcd->bd", weights, outputs)
    assert (layer(x, task=task) - expected).abs().max().item() == approx(0.0, abs=1e-6)


def assert_tasks_are_batched_over(allocation: Allocation) -> None:
    """Asserts that tensors of tasks give what numbers do, in training and in evaluation."""
    n_tasks, n_noise = allocation.n_tasks, allocation.n_noise
    x = torch.randn(5, N_INPUTS) if allocation.sees_examples else None
    noise = (
        torch.rand(n_tasks, 5, n_noise)
        if allocation.sees_examples
        else torch.rand(n_tasks, n_noise)
    )

    def weights(task: Tensor | int, noise: Tensor) -> Tensor:
        return allocation.weights(task, x, noise=noise)

    for is_training in (True, False):
        allocation.train(is_training)
        one_by_one = torch.stack([weights(task, noise[task]) for task in range(n_tasks)])
        assert_close(vmap(weights)(torch.arange(n_tasks), noise), one_by_one)
    rows = torch.stack([allocation.probabilities(task) for task in range(n_tasks)])
    assert_close(vmap(allocation.probabilities)(torch.arange(n_tasks)), rows)
    assert_close(allocation.probabilities(), rows)


class _Surrogate(nn.Module):
    """The loss of one pass with what the allocation adds to it, whose gradient is followed."""

    def __init__(
        self,
        allocation: Allocation,
        loss_of: Callable[[Tensor], Tensor],
        told: Callable[[Tensor], Tensor],
    ) -> None:
        super().__init__()
        self.allocation = allocation
        self._loss_of, self._told = loss_of, told

    def forward(self, x: Tensor | None, noise: Tensor) -> Tensor:
        weights = self.allocation.weights(0, x, noise=noise)
        loss = self._loss_of(weights)
        extra = self.allocation.auxiliary_loss(0, self._told(weights), weights)
        return loss if extra is None else loss + extra


def gradients_of_draws(
    allocation: Allocation,
    loss_of: Callable[[Tensor], Tensor],
    n_draws: int,
    x: Tensor | None = None,
    told: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Tensor]:
    """Returns the gradient of each parameter in each of many passes of task 0, ``[N, ...]``.

    ``told`` gives the losses that the allocation is told; None: those of ``loss_of``.
    """
    module = _Surrogate(allocation, loss_of, told or loss_of)

    def surrogate(parameters: dict[str, Tensor], noise: Tensor) -> Tensor:
        found: Tensor = functional_call(module, parameters, (x, noise))
        return found

    parameters = {f"allocation.{name}": p.detach() for name, p in allocation.named_parameters()}
    examples = () if x is None else (len(x),)
    noise = torch.rand(n_draws, *examples, allocation.n_noise)
    found = vmap(grad(surrogate), in_dims=(None, 0))(parameters, noise)
    return {name.removeprefix("allocation."): value for name, value in found.items()}


def assert_unbiased(draws: Tensor, exact: Tensor, *, n_errors: float = 4.5) -> None:
    """Asserts that the mean of draws ``[N, ...]`` is the exact value, by its standard error.

    Of a hundred numbers, one in a thousand tests would be off by more than 4.5 of them by chance.
    """
    standard_error = draws.std(dim=0) / len(draws) ** 0.5
    off = (draws.mean(dim=0) - exact).abs()
    assert (off <= n_errors * standard_error + 1e-12).all(), (draws.mean(dim=0), exact)


def all_gates(n: int) -> Tensor:
    """Returns every way in which ``n`` gates can be open or shut, ``[2^n, n]``."""
    return (
        torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * n)
        .view(-1, n)
        .to(torch.get_default_dtype())
    )


def likelihoods(logits: Tensor, gates: Tensor) -> Tensor:
    """Returns how likely each row of gates is, ``[N]``, given the logits of gates ``[n]``."""
    p = torch.sigmoid(logits)
    return torch.where(gates == 1, p, 1 - p).prod(dim=-1)
