"""Masks by example, learnt by reward: the mean of many gradients is the exact one."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import torch
from pytest import approx, mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import ScoreFunctionByExample
from allotment.allocation._conditional_masks import regularisers
from tests.allocation.ways import (
    all_gates,
    assert_runs_together_end_as_one_alone,
    assert_tasks_are_batched_over,
    assert_unbiased,
    both_schedules,
    gradients_of_draws,
    likelihoods,
)
from tests.training.toy import N_INPUTS

X = torch.tensor([[1.0, -0.5, 0.3], [-0.2, 0.8, 1.1]], dtype=torch.float64)  # two examples
OUTPUTS = torch.tensor([[1.0, -2.0], [0.5, 1.5]], dtype=torch.float64)  # of two components
TARGETS = torch.tensor([0.7, -1.0], dtype=torch.float64)


def some_masks(baseline: float, **options: Any) -> ScoreFunctionByExample:
    masks = ScoreFunctionByExample(2, 2, n_features=3, p_init=0.4, **options)
    masks.observe(0, torch.tensor(baseline))
    return masks


def each_of(weights: Tensor) -> Tensor:
    """Returns the loss of each of two examples, given the weights of components for each."""
    return ((weights * OUTPUTS).sum(dim=1) - TARGETS).square()


def a_loss(weights: Tensor) -> Tensor:
    return each_of(weights).mean()


def expected_loss(policy: Tensor, offsets: Tensor) -> Tensor:
    """Returns the mean loss over all sixteen masks of two examples and two components."""
    gates = all_gates(4)
    masks = gates.view(-1, 2, 2)
    losses = torch.stack([a_loss(m / m.sum(1, keepdim=True).clamp_min(1.0)) for m in masks])
    logits = X @ policy.T + offsets[0]
    return (likelihoods(logits.flatten(), gates) * losses).sum()


@mark.usefixtures("double")
@mark.parametrize("baseline", [0.0, 2.5])
def test_the_mean_gradient_is_that_of_the_expected_loss(baseline: float) -> None:
    masks = some_masks(baseline)
    draws = gradients_of_draws(masks, a_loss, 30_000, X)
    parameters = [masks.policy.weight, masks.offsets]
    exact = torch.autograd.grad(expected_loss(*parameters), parameters)
    assert all(gradient.abs().max() > 0.1 for gradient in exact)  # something to be found
    for found, gradient in zip((draws["policy.weight"], draws["offsets"]), exact, strict=True):
        assert_unbiased(found, gradient)


@mark.usefixtures("double")
def test_rewards_of_each_example_have_the_same_mean_gradient_and_vary_less() -> None:
    masks = some_masks(2.5)
    draws = gradients_of_draws(masks, a_loss, 30_000, X, each_of)
    parameters = [masks.policy.weight, masks.offsets]
    exact = torch.autograd.grad(expected_loss(*parameters), parameters)
    for found, gradient in zip((draws["policy.weight"], draws["offsets"]), exact, strict=True):
        assert_unbiased(found, gradient)
    of_batches = gradients_of_draws(masks, a_loss, 30_000, X)
    for name, found in draws.items():
        assert found.var(dim=0).sum() < 0.8 * of_batches[name].var(dim=0).sum()


@mark.usefixtures("double")
def test_each_mask_is_blamed_for_the_loss_of_its_own_example_where_that_is_known() -> None:
    masks = some_masks(2.0)
    x = torch.cat([X, X.flip(0)])[:3]
    weights = masks.weights(0, x)
    found = masks.auxiliary_loss(0, torch.tensor([5.0, torch.nan, 1.0]), weights)
    p = torch.sigmoid(x @ masks.policy.weight.T + masks.offsets[0])
    likelihood = torch.where(weights > 0, p, 1 - p).log().sum(dim=1)
    expected = (3.0 * likelihood[0] - 1.0 * likelihood[2]) / 2
    assert_close(found, expected)
    parameters = [masks.policy.weight, masks.offsets]
    for own, by_hand in zip(
        *(torch.autograd.grad(y, parameters) for y in (found, expected)), strict=True
    ):
        assert_close(own, by_hand)


@mark.usefixtures("double")
def test_what_is_added_is_the_advantage_times_the_log_likelihood_of_all_masks() -> None:
    masks = some_masks(2.0)
    weights = masks.weights(0, X)
    found = masks.auxiliary_loss(0, torch.tensor(5.0), weights)
    p = torch.sigmoid(X @ masks.policy.weight.T + masks.offsets[0])
    likelihood = torch.where(weights > 0, p, 1 - p)
    assert_close(found, 3.0 * likelihood.log().sum())


@mark.parametrize("p_open", [0.1, 0.5, 0.9])
def test_each_example_draws_for_itself_with_its_probability(p_open: float) -> None:
    n = 50_000
    masks = ScoreFunctionByExample(1, 2, n_features=3, p_init=p_open)
    gates = (masks.weights(0, torch.zeros(n, 3)) > 0).float()
    standard_error = (p_open * (1 - p_open) / n) ** 0.5
    for share in gates.mean(dim=0).tolist():
        assert share == approx(p_open, abs=4 * standard_error)


def test_regularisers_on_literals() -> None:
    p = torch.tensor([[0.2, 0.6], [0.4, 0.9], [0.3, 0.0]])
    sparsity, variance = regularisers(p, 0.5)
    by_component = abs(0.3 - 0.5) + abs(0.5 - 0.5)
    by_example = (abs(0.4 - 0.5) + abs(0.65 - 0.5) + abs(0.15 - 0.5)) / 3
    assert sparsity.item() == approx(by_component + by_example)
    spread = (0.01 + 0.01 + 0.0) / 3 + (0.01 + 0.16 + 0.25) / 3
    assert variance.item() == approx(-spread)


@mark.usefixtures("double")
def test_regularisers_are_charged_by_their_weights() -> None:
    options = {"target_rate": 0.3, "sparsity_weight": 2.0, "variance_weight": 0.5}
    masks = some_masks(2.0, **options)
    loss, weights = torch.tensor(2.0), masks.weights(0, X)  # no advantage
    p = torch.sigmoid(X @ masks.policy.weight.T + masks.offsets[0])
    sparsity, variance = regularisers(p, 0.3)
    assert_close(masks.auxiliary_loss(0, loss, weights), 2.0 * sparsity + 0.5 * variance)
    assert some_masks(2.0).auxiliary_loss(0, loss, weights).item() == 0.0


def test_no_gradient_goes_through_the_masks_and_one_goes_to_the_features() -> None:
    masks, x = some_masks(2.0), X.float().requires_grad_()
    weights = masks.weights(0, x)
    assert not weights.requires_grad
    masks.auxiliary_loss(0, torch.tensor(5.0), weights).backward()
    assert x.grad is not None and (x.grad != 0).any()


def test_evaluation_takes_the_likely_masks() -> None:
    masks = some_masks(2.0).eval()
    gates = (X.float() @ masks.policy.weight.T + masks.offsets[0] >= 0).float()
    assert_close(masks.weights(0, X.float()), gates / gates.sum(1, keepdim=True).clamp_min(1.0))


def test_matrix_and_probabilities_are_those_of_the_offsets() -> None:
    masks = some_masks(2.0)
    assert_close(masks.probabilities().detach(), torch.full((2, 2), 0.4))
    assert_close(masks.matrix(), torch.zeros(2, 2))
    assert (masks.is_binary, masks.sees_examples, masks.n_noise) == (True, True, 2)


def test_tasks_are_batched_over() -> None:
    masks = ScoreFunctionByExample(2, 3, n_features=N_INPUTS)
    with torch.no_grad():
        masks.offsets.normal_()
    assert_tasks_are_batched_over(masks)


@mark.usefixtures("double")
@both_schedules
def test_runs_together_end_as_one_alone(schedule: str) -> None:
    def make() -> ScoreFunctionByExample:
        options = {"sparsity_weight": 0.1, "variance_weight": 0.1}
        return ScoreFunctionByExample(2, 3, n_features=N_INPUTS, **options)

    state = assert_runs_together_end_as_one_alone(make, schedule=schedule)
    assert (state["layers.0.allocation.offsets"].abs() > 0.01).any()
    assert state["layers.0.allocation.baseline.n_seen"].tolist() == [6, 6]


@mark.parametrize(
    ("options", "expectation"),
    [
        ({}, does_not_raise()),
        ({"sparsity_weight": 1, "variance_weight": 0.5}, does_not_raise()),
        ({"n_features": 0}, raises(ValueError, match=r"^`n_features` should be at least 1")),
        ({"n_features": "3"}, raises(TypeError, match=r"^`n_features` should be a whole number")),
        (
            {"target_rate": 1.0},
            raises(ValueError, match=r"^`target_rate` should be strictly between"),
        ),
        (
            {"sparsity_weight": -1},
            raises(ValueError, match=r"^`sparsity_weight` should be at least"),
        ),
        (
            {"variance_weight": -1},
            raises(ValueError, match=r"^`variance_weight` should be at least"),
        ),
        (
            {"baseline_decay": 1.0},
            raises(ValueError, match=r"^`baseline_decay` should be strictly"),
        ),
        (
            {"p_init": 0.0},
            raises(ValueError, match=r"^`p_init` should be strictly between 0 and 1"),
        ),
    ],
)
def test_options(options: dict[str, Any], expectation: AbstractContextManager[object]) -> None:
    with expectation:
        ScoreFunctionByExample(2, 3, **{"n_features": 4} | options)
