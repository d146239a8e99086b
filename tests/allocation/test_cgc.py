"""Customized gate control: own and shared components."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise

import torch
from pytest import mark, raises
from torch import nn
from torch.func import vmap
from torch.testing import assert_close

from allotment.allocation import CGC
from allotment.modules import ModularLayer, MultiTaskNetwork
from tests.allocation.ways import (
    assert_every_parameter_moves,
    assert_mixes_by_example,
    assert_runs_train_together,
    both_schedules,
)
from tests.training.toy import N_INPUTS, a_network


def a_gate() -> CGC:
    """Returns gates of two tasks with two components each, and one that both share."""
    gates = CGC(2, 5, n_features=N_INPUTS, n_shared=1)
    with torch.no_grad():
        gates.gate.bias.normal_()
    return gates


def cgc_network() -> MultiTaskNetwork:
    return a_network(CGC(2, 5, n_features=N_INPUTS, n_shared=1))


def test_own_components_come_first_and_shared_ones_last() -> None:
    expected = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 1, 1, 1]]).bool()
    assert torch.equal(a_gate().allowed, expected)


def test_shares_are_a_softmax_over_own_and_shared_components_alone() -> None:
    gates, x = a_gate(), torch.randn(7, N_INPUTS)
    for task, places in enumerate([[0, 1, 4], [2, 3, 4]]):
        shares = gates.weights(task, x)
        gate = gates.gate
        scores = x @ gate.weight[task, places].T + gate.bias[task, places]
        assert_close(shares[:, places], scores.softmax(dim=1))
        others = [place for place in range(5) if place not in places]
        assert (shares[:, others] == 0).all()


def test_the_gradient_is_by_hand_and_zero_for_components_of_others() -> None:
    gates, x = a_gate().double(), torch.randn(5, N_INPUTS).double()
    upstream = torch.randn(5, 5).double()
    shares = gates.weights(0, x)
    (shares * upstream).sum().backward()
    p = shares.detach()
    by_score = p * (upstream - (p * upstream).sum(dim=1, keepdim=True))  # [B, C]
    weight = gates.gate.weight.grad
    assert weight is not None
    assert_close(weight[0], by_score.T @ x)
    assert (weight[0, [2, 3]] == 0).all() and (weight[1] == 0).all()


def test_the_matrix_holds_the_shares_of_an_example_of_zeros() -> None:
    gates, zeros = a_gate(), torch.zeros(1, N_INPUTS)
    for task in range(2):
        assert_close(gates.matrix()[task], gates.weights(task, zeros)[0].detach())
        assert_close(gates.probabilities(task), gates.probabilities()[task])


def test_tasks_are_told_apart_by_tensors_too() -> None:
    gates, x = a_gate(), torch.randn(4, N_INPUTS)
    one_by_one = torch.stack([gates.weights(task, x) for task in range(2)])
    assert_close(vmap(gates.weights, in_dims=(0, None))(torch.arange(2), x), one_by_one)


def test_a_batch_gives_the_components_of_other_tasks_no_gradient() -> None:
    layer = ModularLayer([nn.Linear(N_INPUTS, 4) for _ in range(5)], a_gate())
    assert_mixes_by_example(layer, torch.randn(5, N_INPUTS), 1)
    layer(torch.randn(5, N_INPUTS), task=1).square().sum().backward()
    reached = [bool((component.weight.grad != 0).any()) for component in layer.components]  # type: ignore[union-attr]
    assert reached == [False, False, True, True, True]


@mark.usefixtures("double")
@both_schedules
def test_many_runs_train_as_one_program(schedule: str) -> None:
    assert_runs_train_together(cgc_network, schedule)


def test_training_moves_gates_and_biases() -> None:
    assert_every_parameter_moves(cgc_network)


def test_what_it_says_of_itself() -> None:
    gates = a_gate()
    assert (gates.is_binary, gates.sees_examples, gates.n_noise) == (False, True, 0)
    assert repr(gates).startswith("CGC(\n  n_tasks=2, n_components=5, n_shared=1")


def uneven(found: str) -> AbstractContextManager[object]:
    return raises(ValueError, match=rf"divided evenly among tasks.* Found {found} for 2 tasks\.")


@mark.parametrize(
    ("n_components", "n_shared", "expectation"),
    [
        (5, 1, does_not_raise()),
        (4, 0, does_not_raise()),
        (3, 3, does_not_raise()),
        (5, 2, uneven("`n_components = 5` and `n_shared = 2`")),
        (2, 3, uneven("`n_components = 2` and `n_shared = 3`")),
        (2, 4, uneven("`n_components = 2` and `n_shared = 4`")),
        (5, -1, uneven("`n_components = 5` and `n_shared = -1`")),
        (0, 0, raises(ValueError, match=r"`n_components` should be at least 1")),
        (5, 1.0, raises(TypeError, match=r"`n_shared` should be a whole number")),
    ],
)
def test_own_components_are_divided_evenly(
    n_components: int, n_shared: int, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        CGC(2, n_components, n_features=3, n_shared=n_shared)
