"""Selectors with binary codes, and what they are charged."""

from typing import Any

import torch
from pytest import approx, mark, param, raises
from torch import Tensor, nn
from torch.func import vmap
from torch.testing import assert_close

from allotment import fit
from allotment.allocation import DSelectK
from allotment.allocation._dselect_k import binary_codes, entropy_of, smooth_step
from allotment.experiments import using
from allotment.modules import ModularLayer, MultiTaskNetwork
from tests.allocation.ways import (
    assert_every_parameter_moves,
    assert_mixes_by_example,
    assert_runs_train_together,
)
from tests.training.toy import N_INPUTS, SETTINGS, a_network, lines


def selecting(n_components: int = 4, **options: Any) -> DSelectK:
    """Returns selectors of three tasks whose digits are not settled."""
    selectors = DSelectK(3, n_components, **options)
    with torch.no_grad():
        selectors.scores.uniform_(-0.4, 0.4)
        if selectors.gate is not None:
            selectors.gate.uniform_(-0.05, 0.05)
    return selectors


def of_tasks() -> MultiTaskNetwork:
    return a_network(DSelectK(2, 4, k=2))


def with_charges() -> MultiTaskNetwork:
    return a_network(DSelectK(2, 3, k=2, entropy=0.1))


def of_examples() -> MultiTaskNetwork:
    return a_network(DSelectK(2, 3, k=2, entropy=0.1, by_example=True, n_features=N_INPUTS))


def test_the_smooth_step_is_the_published_cubic() -> None:
    x = torch.tensor([-5.0, -1.0, -0.5, 0.0, 0.5, 1.0, 5.0])
    by_hand = [0.0, 0.0, 0.5 - 0.75 * 0.5 + 0.25 * 0.125, 0.5]  # -2 / 8 x^3 + 3 / 4 x + 1 / 2
    expected = torch.tensor([*by_hand, 1 - by_hand[2], 1.0, 1.0])
    assert_close(smooth_step(x, gamma=2.0), expected)
    ends = smooth_step(torch.tensor([-0.35, 0.35]), gamma=0.7)
    assert_close(ends, torch.tensor([0.0, 1.0]), rtol=0, atol=0)  # exactly


def test_codes_are_binary_numbers() -> None:
    expected = torch.tensor([[int(digit) for digit in f"{n:03b}"] for n in range(5)])
    assert_close(binary_codes(5), expected.float())
    assert [binary_codes(n).shape[1] for n in (2, 3, 4, 5, 8, 9)] == [1, 2, 2, 3, 3, 4]


def test_weights_are_the_published_mixture_of_selectors() -> None:
    selectors = DSelectK(1, 4, k=2)
    with torch.no_grad():  # two digits of the first selector, of the second, and their shares
        selectors.scores[0] = torch.tensor([0.0, -0.25, 1.0, 0.25, 0.0, 2.0])
    s = smooth_step(torch.tensor([0.0, -0.25, 1.0, 0.25])).tolist()

    def one(a: float, b: float) -> Tensor:
        return torch.tensor([(1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b])

    share = torch.sigmoid(torch.tensor(-2.0))
    expected = share * one(s[0], s[1]) + (1 - share) * one(s[2], s[3])
    assert_close(selectors.weights(0).detach(), expected)
    assert_close(selectors.matrix()[0], expected)


def test_settled_digits_choose_k_components() -> None:
    selectors = DSelectK(1, 8, k=2)
    with torch.no_grad():  # 5 and 2
        selectors.scores[0] = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 0.0, 1.0])
    shares = torch.tensor([0.0, 1.0]).softmax(dim=0)
    expected = torch.zeros(8)
    expected[5], expected[2] = shares[0], shares[1]
    assert_close(selectors.weights(0).detach(), expected)


def test_shares_sum_to_one_unless_codes_are_unreachable() -> None:
    assert_close(selecting(8, k=3).matrix().sum(dim=1), torch.ones(3))
    assert (selecting(5, k=3).matrix().sum(dim=1) < 0.95).all()


def test_it_starts_close_to_equal_shares_and_apart() -> None:
    matrix = DSelectK(3, 4, k=2).matrix()
    assert_close(matrix, torch.full((3, 4), 0.25), rtol=0, atol=0.02)
    assert matrix.flatten().unique().numel() == 12


def test_the_gradient_agrees_with_finite_differences() -> None:
    selectors, h = selecting(5, k=2, entropy=0.3).double(), 1e-6
    upstream = torch.randn(5).double()

    def value() -> Tensor:
        weights = selectors.weights(1)
        charge = selectors.auxiliary_loss(1, torch.tensor(0.0), weights)
        assert charge is not None
        return (weights * upstream).sum() + charge

    value().backward()
    gradient = selectors.scores.grad
    assert gradient is not None and (gradient[[0, 2]] == 0).all()
    for place in range(selectors.scores.shape[1]):
        with torch.no_grad():
            selectors.scores[1, place] += h
            above = value().item()
            selectors.scores[1, place] -= 2 * h
            below = value().item()
            selectors.scores[1, place] += h
        assert gradient[1, place].item() == approx((above - below) / (2 * h), rel=1e-5, abs=1e-8)


@mark.parametrize("k", [1, 2])
def test_the_charge_is_the_entropy_of_selectors_and_the_inverse_of_what_they_reach(k: int) -> None:
    selectors = DSelectK(1, 3, k=k, entropy=0.5)
    with torch.no_grad():
        selectors.scores[0, : 2 * k] = 0.0  # each code has a quarter, and the fourth is unreachable
    charge = selectors.auxiliary_loss(0, torch.tensor(0.0), selectors.weights(0))
    entropy = 3 * 0.25 * torch.tensor(4.0).log().item()
    assert charge is not None
    assert charge.item() == approx(k * (0.5 * entropy + 1 / 0.75), rel=1e-4)


def test_charges_are_summed_over_selectors_and_averaged_over_examples() -> None:
    one = selecting(3, k=2, entropy=0.2, by_example=True, n_features=N_INPUTS)
    x = torch.randn(6, N_INPUTS)

    def charge(x: Tensor) -> Tensor:
        found = one.auxiliary_loss(1, torch.tensor(0.0), one.weights(1, x))
        assert found is not None
        return found

    each = torch.stack([charge(x[place : place + 1]) for place in range(6)])
    assert_close(charge(x), each.mean())


def test_nothing_is_charged_for_all_codes_without_an_entropy() -> None:
    selectors = selecting(4)
    assert selectors.auxiliary_loss(0, torch.tensor(0.0), selectors.weights(0)) is None


def test_a_charge_needs_the_weights_of_the_pass() -> None:
    selectors = selecting(3)
    with raises(ValueError, match=r"`weights` should be what .* Found a tensor of shape \[3\]"):
        selectors.auxiliary_loss(0, torch.tensor(0.0), selectors.weights(0).clone())


def test_the_entropy_is_that_of_shares() -> None:
    assert_close(entropy_of(torch.full((4,), 0.25)), torch.tensor(4.0).log(), rtol=0, atol=1e-4)
    assert entropy_of(torch.tensor([0.0, 1.0])).item() == approx(0.0, abs=1e-5)


@mark.parametrize("n_components", [4, 3])
def test_an_entropy_charge_settles_on_k_components_that_there_are(n_components: int) -> None:
    network = a_network(DSelectK(2, n_components, k=1, entropy=1.0))
    fit(network, lines(), SETTINGS.changed(rounds=120, allocation_learning_rate=0.02))
    shares = network.modular_layers[0].allocation.matrix()
    assert (shares > 0).sum(dim=1).tolist() == [1, 1]
    assert_close(shares.sum(dim=1), torch.ones(2))


def test_each_example_has_selectors_of_its_own() -> None:
    selectors = selecting(5, k=2, by_example=True, n_features=N_INPUTS)
    x = torch.randn(4, N_INPUTS)
    assert selectors.gate is not None
    one = DSelectK(1, 5, k=2)
    for example, found in zip(x, selectors.weights(2, x), strict=True):
        with torch.no_grad():
            one.scores[0] = selectors.scores[2] + selectors.gate[2] @ example
        assert_close(found, one.weights(0))
    zeros = torch.zeros(1, N_INPUTS)
    assert_close(selectors.matrix()[2], selectors.weights(2, zeros)[0].detach())


def test_a_layer_mixes_each_example_for_itself() -> None:
    selectors = selecting(4, by_example=True, n_features=N_INPUTS)
    layer = ModularLayer([nn.Linear(N_INPUTS, 3) for _ in range(4)], selectors)
    assert_mixes_by_example(layer, torch.randn(5, N_INPUTS), 1)


def test_tasks_are_told_apart_by_tensors_too() -> None:
    for options in ({}, {"by_example": True, "n_features": N_INPUTS}):
        selectors, x = selecting(5, entropy=0.1, **options), torch.randn(4, N_INPUTS)

        def both(task: int | Tensor, s: DSelectK = selectors, x: Tensor = x) -> tuple[Tensor, ...]:
            weights = s.weights(task, x)
            charge = s.auxiliary_loss(task, torch.tensor(0.0), weights)
            assert charge is not None
            return weights, charge, s.probabilities(task)

        for found, *expected in zip(
            vmap(both)(torch.arange(3)), both(0), both(1), both(2), strict=True
        ):
            assert_close(found, torch.stack(expected))


@mark.usefixtures("double")
@mark.parametrize(
    ("build", "schedule"),
    [
        param(of_tasks, "alternating", id="tasks"),
        param(with_charges, "alternating", id="charges", marks=mark.slow),
        param(with_charges, "joint", id="charges, joint"),
        param(of_examples, "alternating", id="examples"),
        param(of_examples, "joint", id="examples, joint", marks=mark.slow),
    ],
)
def test_many_runs_train_as_one_program(build: Any, schedule: str) -> None:
    assert_runs_train_together(build, schedule)


@mark.parametrize("build", [of_tasks, of_examples])
def test_training_moves_every_parameter(build: Any) -> None:
    assert_every_parameter_moves(build)


def test_a_network_that_tells_features_does_not_make_it_look_at_examples() -> None:
    assert not using(DSelectK)(2, 4, n_features=7).sees_examples
    assert using(DSelectK, by_example=True)(2, 4, n_features=7).sees_examples


def test_what_it_says_of_itself() -> None:
    selectors = selecting()
    assert (selectors.is_binary, selectors.sees_examples, selectors.n_noise) == (False, False, 0)
    expected = "DSelectK(n_tasks=3, n_components=4, k=2, gamma=1.0, entropy=0.0)"
    assert repr(selectors) == expected


@mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"k": 0}, ValueError, r"`k` should be at least 1\. Found `k = 0`"),
        ({"k": 1.5}, TypeError, r"`k` should be a whole number\. Found `k = 1.5`"),
        ({"gamma": 0.0}, ValueError, r"`gamma` should be above 0\. Found `gamma = 0.0`"),
        ({"entropy": -1.0}, ValueError, r"`entropy` should be at least 0\.0\. Found"),
        ({"by_example": True}, TypeError, r"`n_features` should be a whole .* Found .*None"),
        ({"by_example": True, "n_features": 0}, ValueError, r"`n_features` should be at least 1"),
    ],
)
def test_bad_options_are_named(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with raises(error, match=message):
        DSelectK(2, 4, **changes)


def test_one_component_leaves_nothing_to_select() -> None:
    with raises(ValueError, match=r"`n_components` should be at least 2\. Found"):
        DSelectK(2, 1, k=1)
    assert DSelectK(2, 2, k=1).matrix().shape == (2, 2)
