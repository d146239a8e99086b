"""Multi-gate mixture of experts."""

from typing import Any

import torch
from pytest import mark, param, raises
from torch import Tensor, nn
from torch.func import vmap
from torch.testing import assert_close

from allotment.allocation import MMoE
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.paper.networks import glorot_
from tests.allocation.ways import (
    assert_every_parameter_moves,
    assert_mixes_by_example,
    assert_runs_train_together,
    both_schedules,
)
from tests.training.toy import N_INPUTS, a_network


def an_mmoe(n_tasks: int = 2, n_components: int = 3, n_features: int = N_INPUTS) -> MMoE:
    """Returns one whose biases are not zero."""
    gates = MMoE(n_tasks, n_components, n_features=n_features)
    with torch.no_grad():
        gates.gate.bias.normal_()
    return gates


def mmoe_network() -> MultiTaskNetwork:
    return a_network(MMoE(2, 3, n_features=N_INPUTS))


def test_shares_are_the_published_softmax_of_a_linear_map_of_the_example() -> None:
    gates = MMoE(2, 2, n_features=2)
    with torch.no_grad():
        gates.gate.weight[1] = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
        gates.gate.bias[1] = torch.tensor([0.0, -1.0])
    x = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 0.5]])
    first = torch.sigmoid(torch.tensor([1.0, 0.0, 2.0]))  # of the scores' differences
    expected = torch.stack([first, 1 - first], dim=1)
    assert_close(gates.weights(1, x).detach(), expected)


def test_the_gradient_of_the_gate_is_by_hand() -> None:
    gates, x = an_mmoe().double(), torch.randn(5, N_INPUTS).double()
    upstream = torch.randn(5, 3).double()
    shares = gates.weights(1, x)
    (shares * upstream).sum().backward()
    p = shares.detach()
    by_score = p * (upstream - (p * upstream).sum(dim=1, keepdim=True))  # [B, C]
    weight, bias = gates.gate.weight.grad, gates.gate.bias.grad
    assert weight is not None and bias is not None
    assert_close(weight[1], by_score.T @ x)
    assert_close(bias[1], by_score.sum(dim=0))
    assert (weight[0] == 0).all() and (bias[0] == 0).all()


@mark.parametrize(
    ("x", "features"),
    [
        param(torch.randn(4, 3, 5, 2), lambda x: x.mean(dim=(2, 3)), id="channels"),
        param(torch.randn(4, 3, 7), lambda x: x.mean(dim=2), id="one more dimension"),
        param(torch.randn(4, 1, 3), lambda x: x.flatten(1), id="flattened"),
        param(torch.randn(4, 3).bfloat16(), lambda x: x.float(), id="fewer digits"),
    ],
)
def test_images_are_averaged_and_small_inputs_flattened(x: Tensor, features: Any) -> None:
    gates = an_mmoe(2, 4, n_features=3)
    assert_close(gates.weights(0, x), gates.weights(0, features(x)))


def test_tasks_are_told_apart_by_tensors_too() -> None:
    gates, x = an_mmoe(3), torch.randn(4, N_INPUTS)
    one_by_one = torch.stack([gates.weights(task, x) for task in range(3)])
    assert_close(vmap(gates.weights, in_dims=(0, None))(torch.arange(3), x), one_by_one)
    assert not torch.allclose(one_by_one[0], one_by_one[1], atol=0.01)


def test_the_matrix_holds_the_shares_of_an_example_of_zeros() -> None:
    gates = an_mmoe(3)
    zeros = torch.zeros(1, N_INPUTS)
    for task in range(3):
        expected = gates.weights(task, zeros)[0].detach()
        assert_close(gates.matrix()[task], expected)
        assert_close(gates.probabilities(task).detach(), expected)
    assert_close(gates.matrix().sum(dim=1), torch.ones(3))


def test_a_layer_mixes_each_example_for_itself() -> None:
    layer = ModularLayer([nn.Linear(N_INPUTS, 4) for _ in range(3)], an_mmoe())
    for is_training in (True, False):
        assert_mixes_by_example(layer.train(is_training), torch.randn(5, N_INPUTS), 1)


def test_a_network_that_draws_its_linear_layers_anew_leaves_the_gate() -> None:
    network = mmoe_network()
    before = network.state_dict()["layers.0.allocation.gate.weight"].clone()
    glorot_(network)
    assert torch.equal(network.state_dict()["layers.0.allocation.gate.weight"], before)


@mark.usefixtures("double")
@both_schedules
def test_many_runs_train_as_one_program(schedule: str) -> None:
    assert_runs_train_together(mmoe_network, schedule)


def test_training_moves_gates_and_biases() -> None:
    assert_every_parameter_moves(mmoe_network)


def test_what_it_says_of_itself() -> None:
    gates = an_mmoe()
    assert (gates.is_binary, gates.sees_examples, gates.is_learnt) == (False, True, True)
    assert gates.n_noise == 0


@mark.parametrize(
    ("shape", "message"),
    [
        ((4, 5), r"of shape \[B, 6\] or \[B, 6, \.\.\.\].* Found shape \[4, 5\]\."),
        ((6,), r"Found shape \[6\]\."),
        ((4, 2, 4), r"Found shape \[4, 2, 4\]\."),
    ],
)
def test_inputs_have_the_features_that_were_told(shape: tuple[int, ...], message: str) -> None:
    with raises(ValueError, match=message):
        an_mmoe().weights(0, torch.zeros(shape))


def test_there_are_examples() -> None:
    with raises(ValueError, match=r"Found NoneType\."):
        an_mmoe().weights(0)


@mark.parametrize(("n", "error"), [(0, ValueError), (2.0, TypeError)])
def test_features_are_counted(n: Any, error: type[Exception]) -> None:
    with raises(error, match=rf"`n_features` should be .* Found `n_features = {n}`\."):
        MMoE(2, 3, n_features=n)
