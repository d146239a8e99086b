"""Noisy top-k gating for each example, and its balance of experts."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from pytest import approx, mark, raises
from torch import Tensor, nn
from torch.func import vmap
from torch.nn import functional as F
from torch.testing import assert_close

from allotment.allocation import TopKExperts
from allotment.allocation._top_k import expected_load, k_at, top_k_softmax, unevenness
from allotment.experiments import using
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.paper.networks import omniglot_network
from tests.allocation.ways import (
    assert_every_parameter_moves,
    assert_mixes_by_example,
    assert_runs_train_together,
)
from tests.training.toy import N_INPUTS, a_network


def some_experts(k: int = 2, n_components: int = 4, **options: Any) -> TopKExperts:
    """Returns experts whose gates are not zero."""
    experts = TopKExperts(3, n_components, n_features=N_INPUTS, k=k, **options)
    with torch.no_grad():
        for parameter in experts.parameters():
            parameter.normal_()
    return experts


def top_k_network() -> MultiTaskNetwork:
    return a_network(TopKExperts(2, 3, n_features=N_INPUTS, k=2, balance_batches=12))


def scores(experts: TopKExperts, task: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the scores without noise, and the size of the noise."""
    assert experts.offsets is not None
    clean = x @ experts.gate.T + experts.offsets[task]
    return clean, F.softplus(x @ experts.noise_gate.T) + 0.01


def test_the_highest_scores_share_by_a_softmax() -> None:
    found = top_k_softmax(torch.tensor([[0.0, 2.0, 1.0, -1.0], [5.0, 5.0, 5.0, 9.0]]), 2)
    p = torch.sigmoid(torch.tensor([1.0, 4.0]))
    assert_close(found[0], torch.tensor([0.0, p[0], 1 - p[0], 0.0]))
    assert found[1, 3].item() == approx(p[1].item())
    assert (found[1] > 0).sum() == 2  # also where scores are equal


def test_evaluation_uses_the_scores_without_noise() -> None:
    experts, x = some_experts().eval(), torch.randn(5, N_INPUTS)
    clean, _ = scores(experts, 1, x)
    assert_close(experts.weights(1, x), top_k_softmax(clean, 2))
    assert_close(experts.weights(1, x, noise=torch.rand(5, 4)), top_k_softmax(clean, 2))


def test_training_adds_normal_noise_of_a_learnt_size() -> None:
    experts, x = some_experts(), torch.randn(5, N_INPUTS)
    clean, scale = scores(experts, 1, x)
    normal = torch.randn(5, 4)
    noise = torch.distributions.Normal(0.0, 1.0).cdf(normal)
    expected = top_k_softmax(clean + normal * scale, 2)
    assert_close(experts.weights(1, x, noise=noise), expected, rtol=1e-4, atol=1e-5)
    middle = torch.full((5, 4), 0.5)
    assert_close(experts.weights(1, x, noise=middle), top_k_softmax(clean, 2))


@mark.parametrize("handed_in", [True, False])
def test_an_expert_is_drawn_as_often_as_its_score_says(handed_in: bool) -> None:
    n = 20_000
    experts = some_experts(k=1, n_components=2)
    x = torch.randn(1, N_INPUTS).expand(n, N_INPUTS)
    (clean, *_), (scale, *_) = scores(experts, 0, x)
    # The difference of two normal draws is one.
    z = (clean[0] - clean[1]) / scale.square().sum().sqrt()
    p = torch.special.ndtr(z).item()
    noise = torch.rand(n, 2).clamp_min(1e-30) if handed_in else None
    share = (experts.weights(0, x, noise=noise)[:, 0] > 0).float().mean().item()
    standard_error = (p * (1 - p) / n) ** 0.5
    assert_close(share, p, rtol=0, atol=4 * standard_error)


def test_extreme_noise_gives_finite_weights_and_gradients() -> None:
    experts, x = some_experts(), torch.randn(2, N_INPUTS)
    tiny = torch.finfo(torch.float32).tiny
    noise = torch.tensor([[tiny, 1 - 2**-24, 0.5, 1e-7], [1 - 2**-24, tiny, 1e-7, 0.5]])
    weights = experts.weights(0, x, noise=noise)
    charge = experts.auxiliary_loss(0, torch.tensor(0.0), weights)
    assert charge is not None
    (weights.square().sum() + charge).backward()
    for parameter in experts.parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all()


@mark.parametrize("k", [1, 2, 3])
def test_the_load_is_the_frequency_with_which_a_new_draw_of_its_own_noise_gets_in(k: int) -> None:
    n, experts, x = 10_000, some_experts(k), torch.randn(1, N_INPUTS)
    noise = torch.rand(1, 4)
    clean, scale = scores(experts, 0, x)
    noisy = clean + torch.special.ndtri(noise) * scale
    load = expected_load(clean, noisy, scale, k).detach()
    for place in range(4):
        redrawn = noise.repeat(n, 1)
        redrawn[:, place] = torch.rand(n).clamp_min(1e-30)
        weights = experts.weights(0, x.expand(n, N_INPUTS), noise=redrawn)
        frequency = (weights[:, place] > 0).float().mean().item()
        p = load[place].item()
        standard_error = (p * (1 - p) / n) ** 0.5
        assert_close(frequency, p, rtol=0, atol=4 * standard_error + 1e-6)


def test_the_load_compares_scores_with_scores() -> None:
    # A constant added to all scores changes no choice. Thresholds after a softmax would feel it.
    clean, normal, scale = torch.randn(6, 4), torch.randn(6, 4), torch.rand(6, 4) + 0.5
    found = expected_load(clean, clean + normal * scale, scale, 2)
    moved = expected_load(clean + 3, clean + 3 + normal * scale, scale, 2)
    assert_close(moved, found, rtol=0, atol=1e-5)


def test_the_load_is_by_hand_on_numbers() -> None:
    clean = torch.tensor([[1.0, 0.0, -1.0]])
    noisy = torch.tensor([[0.5, 0.8, -2.0]])
    scale = torch.tensor([[1.0, 2.0, 0.5]])
    found = expected_load(clean, noisy, scale, 1)
    # In: the second. It has to beat 0.5, the others 0.8.
    by_hand = torch.tensor([(1.0 - 0.8) / 1.0, (0.0 - 0.5) / 2.0, (-1.0 - 0.8) / 0.5])
    assert_close(found, torch.special.ndtr(by_hand))
    assert_close(expected_load(clean, noisy, scale, 3), torch.ones(3))


def test_unevenness_is_the_squared_coefficient_of_variation() -> None:
    assert unevenness(torch.full((3,), 5.0)).item() == approx(0.0, abs=1e-6)
    assert unevenness(torch.tensor([1.0, 3.0])).item() == approx(0.25)
    assert unevenness(torch.tensor([4.0, 0.0, 0.0, 0.0])).item() == approx(3.0)


def the_charge(experts: TopKExperts, x: Tensor, noise: Tensor) -> Tensor:
    weights = experts.weights(0, x, noise=noise)
    charge = experts.auxiliary_loss(0, torch.tensor(0.0), weights)
    assert charge is not None
    return charge


def test_the_charge_is_that_of_importance_and_load_and_falls_to_zero() -> None:
    experts = some_experts(balance=0.4, balance_batches=8)
    x, noise = torch.randn(9, N_INPUTS), torch.rand(9, 4)
    clean, scale = scores(experts, 0, x)
    noisy = clean + torch.special.ndtri(noise) * scale
    importance = top_k_softmax(noisy, 2).sum(dim=0)
    whole = unevenness(importance) + unevenness(expected_load(clean, noisy, scale, 2))
    for n_batches, weight in ((0, 0.4), (2, 0.3), (8, 0.0), (20, 0.0)):
        experts.n_batches.fill_(n_batches)
        assert_close(the_charge(experts, x, noise), weight * whole)


def test_the_gradient_of_the_charge_agrees_with_finite_differences() -> None:
    experts, h = some_experts(balance=1.0).double(), 1e-6
    x, noise = torch.randn(7, N_INPUTS).double(), torch.rand(7, 4).double()
    the_charge(experts, x, noise).backward()
    for name, parameter in experts.named_parameters():
        place = (0, 1)
        assert parameter.grad is not None
        with torch.no_grad():
            ends = []
            for step in (h, -2 * h):
                parameter[place] += step
                ends.append(the_charge(experts, x, noise).item())
            parameter[place] += h
        by_difference = (ends[0] - ends[1]) / (2 * h)
        assert parameter.grad[place].item() == approx(by_difference, rel=1e-4, abs=1e-7), name


def test_a_charge_evens_out_the_use_of_experts() -> None:
    experts = some_experts(k=1, balance=1.0)
    x = torch.randn(256, N_INPUTS)
    optimizer = torch.optim.Adam(experts.parameters(), lr=0.05)
    before = the_charge(experts, x, torch.rand(256, 4)).item()
    for _ in range(60):
        optimizer.zero_grad()
        the_charge(experts, x, torch.rand(256, 4)).backward()
        optimizer.step()
    assert the_charge(experts, x, torch.rand(256, 4)).item() < 0.2 * before


def test_without_a_balance_nothing_is_charged() -> None:
    experts, x = some_experts(balance=0.0), torch.randn(5, N_INPUTS)
    assert experts.auxiliary_loss(0, torch.tensor(0.0), experts.weights(0, x)) is None


def test_a_charge_needs_the_weights_of_a_training_pass() -> None:
    experts, x = some_experts().eval(), torch.randn(5, N_INPUTS)
    with raises(
        ValueError, match=r"should be what `weights` .*\. Found a tensor of shape \[5, 4\]"
    ):
        experts.auxiliary_loss(0, torch.tensor(0.0), experts.weights(0, x))


def test_it_starts_without_a_preference() -> None:
    n, experts = 4_000, TopKExperts(2, 4, n_features=N_INPUTS, k=2)
    shares = (experts.weights(0, torch.randn(n, N_INPUTS)) > 0).float().mean(dim=0)
    standard_error = (0.5 * 0.5 / n) ** 0.5
    assert_close(shares, torch.full((4,), 0.5), rtol=0, atol=4 * standard_error)
    assert_close(experts.matrix(), torch.full((2, 4), 0.25))


def test_the_matrix_is_the_softmax_of_the_tasks_offset() -> None:
    experts = some_experts()
    assert experts.offsets is not None
    assert_close(experts.matrix(), experts.offsets.softmax(dim=-1).detach())
    assert_close(experts.probabilities(2), experts.offsets[2].softmax(dim=-1))


def test_without_offsets_tasks_are_alike() -> None:
    experts, x = some_experts(by_task=False).eval(), torch.randn(5, N_INPUTS)
    assert "offsets" not in dict(experts.named_parameters())
    assert_close(experts.weights(0, x), experts.weights(1, x), rtol=0, atol=0)
    assert_close(experts.matrix(), torch.full((3, 4), 0.25))


def test_tasks_are_told_apart_by_tensors_too() -> None:
    experts, x, noise = some_experts(), torch.randn(5, N_INPUTS), torch.rand(3, 5, 4)

    def both(task: int | Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        weights = experts.weights(task, x, noise=noise)
        charge = experts.auxiliary_loss(task, torch.tensor(0.0), weights)
        assert charge is not None
        return weights, charge

    weights, charges = vmap(both)(torch.arange(3), noise)
    for task in range(3):
        own_weights, own_charge = both(task, noise[task])
        assert_close(weights[task], own_weights)
        assert_close(charges[task], own_charge)


def test_a_layer_mixes_each_example_for_itself() -> None:
    layer = ModularLayer([nn.Linear(N_INPUTS, 3) for _ in range(4)], some_experts()).eval()
    assert_mixes_by_example(layer, torch.randn(5, N_INPUTS), 1)


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", "joint"])
def test_many_runs_train_as_one_program(schedule: str) -> None:
    assert_runs_train_together(top_k_network, schedule)


def test_training_moves_every_parameter() -> None:
    assert_every_parameter_moves(top_k_network)


def test_a_network_tells_its_layers_their_depth() -> None:
    allocate = partial(using(TopKExperts, k=(7, 2)), 2)
    network = omniglot_network(allocate, {"a": 3, "b": 4})
    found = [layer.allocation.k for layer in network.modular_layers]
    assert found == [7, 6, 6, 5, 4, 3, 3, 2]


def test_a_pair_goes_from_the_first_layer_to_the_last() -> None:
    assert [k_at((2, 5), depth, 4, 5) for depth in range(4)] == [2, 3, 4, 5]
    assert k_at([4, 1], 0, 1, 5) == 4
    assert k_at(3, 5, 9, 5) == 3


@mark.parametrize("k", [0, 5, (5, 2), (2, 0), (2,), (1, 2, 3)])
def test_k_is_a_number_of_components_or_a_pair(k: int | Sequence[int]) -> None:
    with raises(ValueError, match=r"`k` should be a number from 1 to 4.* Found `k = "):
        TopKExperts(2, 4, n_features=3, k=k)


@mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_features": 0}, ValueError, r"`n_features` should be at least 1\. Found .* = 0`"),
        ({"n_features": 2.0}, TypeError, r"`n_features` should be a whole number\. Found"),
        ({"k": 1.5}, TypeError, r"`k` should be a whole number\. Found `k = 1.5`"),
        ({"depth": 3, "n_layers": 3}, ValueError, r"in \[0, n_layers\)\. Found `depth = 3` of 3"),
        ({"balance": -0.1}, ValueError, r"`balance` should be at least 0\.0\. Found"),
        ({"balance_batches": 0}, ValueError, r"`balance_batches` should be above 0\. Found"),
    ],
)
def test_bad_options_are_named(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with raises(error, match=message):
        TopKExperts(2, 4, **{"n_features": 3} | changes)


def test_it_prints_its_sizes() -> None:
    expected = "TopKExperts(n_tasks=3, n_components=4, n_features=6, k=2)"
    assert repr(some_experts()) == expected
