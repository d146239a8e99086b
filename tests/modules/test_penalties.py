"""What is charged for gates, against formulas written by hand."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from math import log

import torch
from pytest import approx, mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.modules import (
    budget_penalty,
    connection_penalty,
    disconnect_penalty,
    entropy_penalty,
)


def gradient_of(charge: Tensor, probabilities: Tensor) -> Tensor:
    """Returns the gradient of a charge."""
    return torch.autograd.grad(charge, probabilities)[0]


@mark.parametrize("share", [0.1, 0.499])
def test_the_budget_costs_nothing_below(share: float) -> None:
    p = torch.full((4,), share, requires_grad=True)
    charge = budget_penalty(p, 0.5, weight=3.0)
    assert charge.item() == 0.0
    assert (gradient_of(charge, p) == 0).all()


def test_the_budget_costs_linearly_above() -> None:
    p = torch.tensor([0.9, 0.8, 0.3, 0.6], requires_grad=True)  # mean 0.65
    charge = budget_penalty(p, 0.5, weight=3.0)
    assert charge.item() == approx(3.0 * 0.15, rel=1e-5)
    assert_close(gradient_of(charge, p), torch.full((4,), 3.0 / 4))
    assert budget_penalty(p + 0.1, 0.5, weight=3.0).item() == approx(3.0 * 0.25, rel=1e-5)


def test_the_global_budget_is_over_all_tasks() -> None:
    p = torch.tensor([[0.9, 0.9], [0.1, 0.3]])
    assert budget_penalty(p, 0.5, weight=2.0).item() == approx(2.0 * 0.05, rel=1e-5)
    assert budget_penalty(p[1], 0.5).item() == 0.0


def test_the_budget_may_count_costs() -> None:
    p = torch.tensor([0.9, 0.5, 0.1], requires_grad=True)
    costs = torch.tensor([6.0, 3.0, 1.0])  # 0.54 + 0.15 + 0.01 = 0.70
    charge = budget_penalty(p, 0.5, weight=2.0, costs=costs)
    assert charge.item() == approx(2.0 * 0.2, rel=1e-5)
    assert_close(gradient_of(charge, p), 2.0 * costs / 10)
    both = torch.stack([p, torch.zeros(3)])
    assert budget_penalty(both, 0.3, costs=costs).item() == approx(0.05, rel=1e-5)


def test_equal_costs_count_as_none() -> None:
    p = torch.rand(5)
    with_costs = budget_penalty(p, 0.1, costs=torch.full((5,), 7.0))
    assert_close(with_costs, budget_penalty(p, 0.1))


def test_a_budget_may_be_a_tensor() -> None:
    p = torch.tensor([0.9, 0.7])
    charge = budget_penalty(p, torch.tensor(0.5), weight=torch.tensor(2.0))
    assert charge.item() == approx(0.6, rel=1e-5)


def out_of_range(found: str) -> AbstractContextManager[object]:
    return raises(
        ValueError, match=rf"^`budget` should be in \(0, 1\]\. Found `budget = {found}`\.$"
    )


@mark.parametrize(
    ("budget", "expectation"),
    [
        (-0.1, out_of_range("-0.1")),
        (0.0, out_of_range("0.0")),
        (0.01, does_not_raise()),
        (1.0, does_not_raise()),
        (1.01, out_of_range("1.01")),
        (float("nan"), out_of_range("nan")),
    ],
)
def test_budget_range(budget: float, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        budget_penalty(torch.rand(3), budget)


def test_entropy_is_largest_for_an_undecided_gate() -> None:
    p = torch.linspace(0.05, 0.95, 19)
    charges = torch.stack([entropy_penalty(q) for q in p])
    assert charges.argmax().item() == 9
    assert charges[9].item() == approx(log(2), rel=1e-5)
    assert_close(charges, charges.flip(0))


def test_entropy_is_a_mean_over_gates() -> None:
    p = torch.tensor([0.2, 0.9])
    by_hand = [-(q * log(q) + (1 - q) * log(1 - q)) for q in (0.2, 0.9)]
    assert entropy_penalty(p, weight=3.0).item() == approx(3.0 * sum(by_hand) / 2, rel=1e-5)


def test_the_gradient_of_entropy_is_the_negative_log_odds() -> None:
    p = torch.tensor([0.2, 0.5, 0.9], requires_grad=True)
    expected = -torch.logit(p.detach()) / 3
    assert_close(gradient_of(entropy_penalty(p), p), expected)


def test_a_decided_gate_costs_almost_nothing_and_stays_finite() -> None:
    p = torch.tensor([0.0, 1.0], requires_grad=True)
    charge = entropy_penalty(p)
    assert 0.0 <= charge.item() < 1e-4
    assert gradient_of(charge, p).isfinite().all()


@mark.parametrize("power", [1.0, 2.0, 0.5])
@mark.parametrize("progress", [0.0, 0.25, 1.0])
def test_the_charge_for_entropy_grows_over_training(power: float, progress: float) -> None:
    p = torch.tensor([0.5])
    expected = 2.0 * progress**power * log(2)
    assert entropy_penalty(p, weight=2.0, progress=progress, power=power).item() == approx(
        expected, rel=1e-5
    )
    as_tensor = entropy_penalty(p, weight=2.0, progress=torch.tensor(progress), power=power)
    assert as_tensor.item() == approx(expected, rel=1e-5)


def test_every_connection_costs_alike() -> None:
    p = torch.tensor([0.9, 0.1, 0.2], requires_grad=True)
    charge = connection_penalty(p, weight=3.0)
    assert charge.item() == approx(3.0 * 0.4, rel=1e-5)
    assert_close(gradient_of(charge, p), torch.ones(3))


def test_connections_may_have_costs() -> None:
    p = torch.tensor([0.9, 0.1])
    assert connection_penalty(p, costs=torch.tensor([3.0, 1.0])).item() == approx(0.7, rel=1e-5)


def test_disconnection_is_charged_layer_by_layer() -> None:
    p = torch.tensor([0.9, 0.5, 0.2, 0.3, 0.4])
    expected = 2.0 * (0.1 * 0.5 + 0.8 * 0.7 * 0.6)
    assert disconnect_penalty(p, [2, 3], weight=2.0).item() == approx(expected, rel=1e-5)


def test_disconnection_of_all_tasks_is_a_mean_over_tasks() -> None:
    p = torch.tensor([[0.9, 0.5, 0.2], [0.1, 0.2, 1.0]])
    by_task = torch.stack([disconnect_penalty(row, [2, 1]) for row in p])
    assert_close(disconnect_penalty(p, [2, 1]), by_task.mean())


def test_an_open_gate_ends_the_charge_for_disconnection() -> None:
    assert disconnect_penalty(torch.tensor([1.0, 0.0, 0.3]), [3]).item() == 0.0
