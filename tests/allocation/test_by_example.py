"""Gates by example: their draws, their gradients, and the target of their rates."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import torch
from pytest import approx, mark, raises
from torch import nn
from torch.testing import assert_close

from allotment.allocation import GumbelByExample
from allotment.modules import ModularLayer, MultiTaskNetwork
from tests.allocation.ways import (
    assert_runs_together_end_as_one_alone,
    assert_tasks_are_batched_over,
    both_schedules,
)
from tests.training.toy import N_INPUTS, a_network, fitted, pictures


def silent(n_components: int = 3, **options: Any) -> GumbelByExample:
    """Returns gates whose router says nothing, so that offsets alone count."""
    allocation = GumbelByExample(2, n_components, n_features=4, **options)
    last = allocation.router[-1]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    return allocation


@mark.parametrize("p_open", [0.1, 0.5, 0.9])
def test_each_example_draws_for_itself_with_its_probability(p_open: float) -> None:
    n = 50_000
    gates = silent(2, p_init=p_open).gates(0, torch.randn(n, 4))
    standard_error = (p_open * (1 - p_open) / n) ** 0.5
    for share in gates.mean(dim=0).tolist():
        assert share == approx(p_open, abs=4 * standard_error)
    both = p_open**2
    assert gates.prod(dim=1).mean().item() == approx(both, abs=4 * (both * (1 - both) / n) ** 0.5)


def test_logits_are_two_layers_of_the_features_and_the_offset_of_the_task() -> None:
    allocation = GumbelByExample(2, 3, n_features=4, n_hidden=5).eval()
    with torch.no_grad():
        allocation.offsets.normal_(std=0.1)
    first, _, last = allocation.router
    assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
    x = torch.randn(50, 4)
    hidden = (x @ first.weight.T + first.bias).relu()
    logits = hidden @ last.weight.T + allocation.offsets[1]
    gates = (logits >= 0).float()
    assert_close(allocation.gates(1, x), gates)
    assert_close(allocation.weights(1, x), gates / gates.sum(1, keepdim=True).clamp_min(1))
    assert len(gates.unique(dim=0)) > 1  # examples differ


def test_images_are_pooled() -> None:
    allocation = GumbelByExample(2, 3, n_features=4).eval()
    x = torch.randn(9, 4, 5, 5)
    assert_close(allocation.weights(0, x), allocation.weights(0, x.mean((2, 3))))


@mark.usefixtures("double")
def test_the_gradient_of_a_gate_is_that_of_the_soft_one() -> None:
    allocation = silent(p_init=0.3, temperature=2.0, reduce="sum")
    noise = torch.rand(5, 3)
    upstream = torch.randn(5, 3)
    (allocation.weights(0, torch.randn(5, 4), noise=noise) * upstream).sum().backward()
    noisy = torch.logit(torch.tensor(0.3)) + torch.logit(noise)
    soft = torch.sigmoid(noisy / 2.0)
    by_hand = (upstream * soft * (1 - soft) / 2.0).sum(dim=0)
    assert allocation.offsets.grad is not None
    assert_close(allocation.offsets.grad[0], by_hand)
    assert (allocation.offsets.grad[1] == 0).all()


def test_open_components_of_an_example_are_averaged_or_added() -> None:
    noise = torch.tensor([[0.9, 0.1, 0.8], [0.1, 0.2, 0.3]])
    gates, x = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), torch.randn(2, 4)
    assert_close(silent().weights(0, x, noise=noise).detach(), gates / 2, rtol=0, atol=0)
    found = silent(reduce="sum").weights(0, x, noise=noise)
    assert_close(found.detach(), gates, rtol=0, atol=0)


@mark.parametrize("reduce", ["mean", "sum"])
def test_the_rate_of_each_gate_is_charged_by_its_squared_distance(reduce: str) -> None:
    allocation = silent(target_rate=0.75, target_weight=2.0, reduce=reduce)
    noise = torch.tensor([[0.9, 0.1, 0.8], [0.8, 0.2, 0.3]])  # rates 1, 0 and 0.5
    weights = allocation.weights(0, torch.randn(2, 4), noise=noise)
    charge = allocation.auxiliary_loss(0, torch.tensor(3.0), weights)
    assert charge is not None
    assert charge.item() == approx(2.0 * (0.25**2 + 0.75**2 + 0.25**2))
    charge.backward()
    soft = torch.sigmoid(torch.logit(noise))
    rates = torch.tensor([1.0, 0.0, 0.5])
    by_hand = 2.0 * 2 * (rates - 0.75) * (soft * (1 - soft)).mean(dim=0)
    assert allocation.offsets.grad is not None
    assert_close(allocation.offsets.grad[0], by_hand)


def test_without_a_target_nothing_is_charged() -> None:
    allocation = silent()
    weights = allocation.weights(0, torch.randn(2, 4))
    assert allocation.auxiliary_loss(0, torch.tensor(3.0), weights) is None


def test_training_goes_towards_the_target() -> None:
    rates = []
    for target in (0.2, 0.9):
        network = a_network(
            GumbelByExample(2, 3, n_features=N_INPUTS, target_rate=target, target_weight=20.0)
        )
        fitted(network, rounds=60, allocation_learning_rate=0.1)
        allocation = network.modular_layers[0].allocation.train()
        assert isinstance(allocation, GumbelByExample)
        rates.append(allocation.gates(0, torch.randn(2_000, N_INPUTS)).mean().item())
    assert rates[0] < 0.4 and rates[1] > 0.7, rates


def test_a_network_of_images_is_fitted() -> None:
    def component() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())

    layer = ModularLayer([component() for _ in range(3)], GumbelByExample(2, 3, n_features=1))
    heads = [nn.Linear(2 * 4 * 4, width) for width in (2, 3)]
    network = MultiTaskNetwork(None, [layer, nn.Flatten()], heads)
    fitted(network, pictures(2, 3))
    assert_close(network.matrix(), network.modular_layers[0].allocation.matrix())


def test_matrix_and_probabilities_are_those_of_the_offsets() -> None:
    allocation = GumbelByExample(2, 3, n_features=4, p_init=0.25)
    assert_close(allocation.probabilities().detach(), torch.full((2, 3), 0.25))
    assert_close(allocation.matrix(), torch.zeros(2, 3))
    assert (allocation.is_binary, allocation.sees_examples, allocation.n_noise) == (True, True, 3)


def test_tasks_are_batched_over() -> None:
    allocation = GumbelByExample(2, 3, n_features=N_INPUTS)
    with torch.no_grad():
        allocation.offsets.normal_()
    assert_tasks_are_batched_over(allocation)


@mark.usefixtures("double")
@both_schedules
def test_runs_together_end_as_one_alone(schedule: str) -> None:
    def make() -> GumbelByExample:
        return GumbelByExample(2, 3, n_features=N_INPUTS, target_rate=0.7)

    state = assert_runs_together_end_as_one_alone(make, schedule=schedule)
    assert (state["layers.0.allocation.offsets"].abs() > 0.01).all()


def test_inputs_of_other_sizes_are_told() -> None:
    with raises(ValueError, match=r"^`x` should be of shape \[B, 4\] .* Found shape \[5, 3\]\."):
        GumbelByExample(2, 3, n_features=4).weights(0, torch.randn(5, 3))


@mark.parametrize(
    ("options", "expectation"),
    [
        ({}, does_not_raise()),
        ({"target_rate": 1.0, "target_weight": 0.0}, does_not_raise()),
        ({"n_features": 0}, raises(ValueError, match=r"^`n_features` should be at least 1")),
        ({"n_features": 2.0}, raises(TypeError, match=r"^`n_features` should be a whole number")),
        ({"n_hidden": 0}, raises(ValueError, match=r"^`n_hidden` should be at least 1")),
        ({"temperature": 0.0}, raises(ValueError, match=r"^`temperature` should be above 0")),
        ({"target_rate": 0.0}, raises(ValueError, match=r"^`target_rate` should be in \(0, 1\]")),
        ({"target_weight": -1}, raises(ValueError, match=r"^`target_weight` should be at least 0")),
        ({"reduce": "max"}, raises(ValueError, match=r"^`reduce` should be one of 'sum', 'mean'")),
        (
            {"p_init": 1.0},
            raises(ValueError, match=r"^`p_init` should be strictly between 0 and 1"),
        ),
    ],
)
def test_options(options: dict[str, Any], expectation: AbstractContextManager[object]) -> None:
    with expectation:
        GumbelByExample(2, 3, **{"n_features": 4} | options)


def test_it_prints_its_options() -> None:
    assert repr(GumbelByExample(2, 3, n_features=4)).startswith(
        "GumbelByExample(\n  n_tasks=2, n_components=3, n_features=4, target_rate=None, reduce="
    )
