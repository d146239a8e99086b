"""Routing by a policy: its draws, and the mean of many gradients against the exact one."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise

import torch
from pytest import approx, mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import RoutingPolicy
from tests.allocation.ways import (
    assert_runs_together_end_as_one_alone,
    assert_tasks_are_batched_over,
    assert_unbiased,
    both_schedules,
    gradients_of_draws,
)

POLICY = [[0.1, 0.6, 0.3], [0.5, 0.2, 0.3]]


def a_policy(baseline: float | None = None, **options: float) -> RoutingPolicy:
    policy = RoutingPolicy(2, 3, **options)
    with torch.no_grad():
        policy.preferences.copy_(torch.tensor(POLICY).log())
    if baseline is not None:
        policy.observe(0, torch.tensor(baseline))
    return policy


def a_loss(weights: Tensor) -> Tensor:
    return (weights @ torch.tensor([1.0, -0.5, 2.0]).to(weights)).square() + 1.0


def test_one_component_is_drawn_as_often_as_the_policy_says() -> None:
    n, policy = 20_000, a_policy()
    drawn = torch.func.vmap(lambda noise: policy.weights(0, noise=noise))(torch.rand(n, 1))
    assert ((drawn == 0) | (drawn == 1)).all() and (drawn.sum(dim=1) == 1).all()
    for place, p in enumerate(POLICY[0]):
        standard_error = (p * (1 - p) / n) ** 0.5
        assert drawn[:, place].mean().item() == approx(p, abs=4 * standard_error)


@mark.parametrize(
    ("u", "place"), [(1e-9, 0), (0.09, 0), (0.11, 1), (0.69, 1), (0.71, 2), (1 - 2**-24, 2)]
)
def test_the_noise_falls_into_an_interval_of_the_policy(u: float, place: int) -> None:
    weights = a_policy().weights(0, noise=torch.tensor([u]))
    assert weights.tolist() == [float(place == other) for other in range(3)]


def test_without_noise_a_draw_comes_from_torch() -> None:
    drawn = torch.stack([a_policy().weights(0) for _ in range(50)])
    assert len(drawn.unique(dim=0)) > 1


@mark.usefixtures("double")
@mark.parametrize("baseline", [0.0, 2.0])
def test_the_mean_gradient_is_that_of_the_expected_loss(baseline: float) -> None:
    draws = gradients_of_draws(a_policy(baseline), a_loss, 20_000)["preferences"]
    preferences = torch.tensor(POLICY[0]).log().requires_grad_()
    losses = torch.stack([a_loss(own) for own in torch.eye(3)])
    (exact,) = torch.autograd.grad((preferences.softmax(0) * losses).sum(), preferences)
    assert exact.abs().max() > 0.5  # something to be found
    assert_unbiased(draws[:, 0], exact)
    assert (draws[:, 1] == 0).all()


def test_what_is_added_is_the_advantage_times_the_log_policy() -> None:
    policy = a_policy(2.0)
    chosen = torch.tensor([0.0, 0.0, 1.0])
    found = policy.auxiliary_loss(0, torch.tensor(5.0), chosen)
    assert found.item() == approx(3.0 * torch.tensor(0.3).log().item())
    found.backward()
    assert policy.preferences.grad is not None
    by_hand = 3.0 * (chosen - torch.tensor(POLICY[0]))  # d log p_k / d s = e_k - p
    assert_close(policy.preferences.grad[0], by_hand)


def test_entropy_is_paid_for() -> None:
    loss, weights = torch.tensor(5.0), torch.eye(3)[0]
    plain = a_policy(2.0).auxiliary_loss(0, loss, weights)
    paid = a_policy(2.0, entropy_weight=0.5).auxiliary_loss(0, loss, weights)
    p = torch.tensor(POLICY[0])
    assert (plain - paid).item() == approx(-0.5 * (p * p.log()).sum().item(), rel=1e-5)


def test_no_gradient_goes_through_the_choice() -> None:
    assert not a_policy().weights(0).requires_grad


def test_evaluation_takes_the_most_likely_component() -> None:
    policy = a_policy().eval()
    expected = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    for task in range(2):
        assert_close(policy.weights(task, noise=torch.tensor([0.999])), expected[task])
    assert_close(policy.matrix(), expected)
    assert_close(policy.probabilities().detach(), torch.tensor(POLICY))
    assert (policy.is_binary, policy.same_in_evaluation, policy.n_noise) == (True, True, 1)


def test_tasks_are_batched_over() -> None:
    assert_tasks_are_batched_over(a_policy())


def test_one_component_is_always_taken() -> None:
    policy = RoutingPolicy(2, 1)
    assert policy.weights(0).tolist() == [1.0] and policy.eval().weights(0).tolist() == [1.0]


@mark.usefixtures("double")
@both_schedules
def test_runs_together_end_as_one_alone(schedule: str) -> None:
    def make() -> RoutingPolicy:
        return RoutingPolicy(2, 3, entropy_weight=0.01)

    state = assert_runs_together_end_as_one_alone(make, schedule=schedule)
    assert (state["layers.0.allocation.preferences"].abs() > 0.01).any()
    assert state["layers.0.allocation.baseline.n_seen"].tolist() == [6, 6]


@mark.parametrize(
    ("entropy_weight", "expectation"),
    [
        (
            -0.1,
            raises(ValueError, match=r"^`entropy_weight` should be at least 0\.0\. Found .*-0\.1"),
        ),
        (0.0, does_not_raise()),
        (0.3, does_not_raise()),
    ],
)
def test_entropy_weight_range(
    entropy_weight: float, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        RoutingPolicy(1, 2, entropy_weight=entropy_weight)


def test_the_decay_of_the_baseline_is_checked() -> None:
    with raises(
        ValueError, match=r"^`baseline_decay` should be strictly between .* Found .* = 0\.0"
    ):
        RoutingPolicy(1, 1, baseline_decay=0.0)
