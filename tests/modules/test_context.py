"""The task of a pass: where modular layers find it, and what a pass leaves behind."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import numpy as np
import torch
from pytest import mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import for_task
from allotment.allocation import FixedMatrix, GumbelMatrix, ScoreFunctionMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskModel, MultiTaskNetwork, Noise, Pass
from tests.allocation.made_up import ByExample, Shares

ONE_EACH = [[1, 0], [0, 1]]


def a_layer() -> ModularLayer:
    """Returns a layer in which each of two tasks has a component of its own."""
    return ModularLayer([nn.Linear(4, 4) for _ in range(2)], FixedMatrix(ONE_EACH))


@mark.parametrize("is_training", [True, False])
def test_a_layer_finds_its_task_in_the_context(is_training: bool) -> None:
    layer = a_layer().train(is_training)
    block = nn.Sequential(nn.ReLU(), nn.Sequential(layer))
    x = torch.randn(3, 4)
    for task in (0, 1):
        with for_task(task):
            assert_close(block(x), layer.components[task](x.relu()))


def test_a_task_that_is_given_goes_before_the_contexts() -> None:
    layer, x = a_layer().eval(), torch.randn(3, 4)
    with for_task(0):
        assert_close(layer(x, task=1), layer.components[1](x))


def test_contexts_lie_inside_each_other_and_end() -> None:
    layer, x = a_layer().eval(), torch.randn(3, 4)
    with for_task(0):
        with for_task(1):
            assert_close(layer(x), layer.components[1](x))
        assert_close(layer(x), layer.components[0](x))
        with raises(KeyError), for_task(1):
            raise KeyError
        assert_close(layer(x), layer.components[0](x))
    with raises(ValueError, match=r"within `for_task\(task\)`, or with `task=`\. Found no task\."):
        layer(x)


@mark.parametrize(
    ("task", "expectation"),
    [
        (0, does_not_raise()),
        (np.int64(1), does_not_raise()),
        (-1, raises(ValueError, match=r"`task` should be at least 0\. Found `task = -1`\.")),
        ("a", raises(TypeError, match=r"`task` should be a whole number\. Found `task = 'a'`\.")),
    ],
)
def test_a_context_has_the_index_of_a_task(
    task: Any, expectation: AbstractContextManager[object]
) -> None:
    with expectation, for_task(task):
        a_layer()(torch.randn(3, 4))


def test_a_network_tells_its_own_task() -> None:
    network, x = MultiTaskNetwork(None, [a_layer()]).eval(), torch.randn(3, 4)
    with for_task(0):
        inside = network(x, 1)
    assert_close(inside, network(x, 1), rtol=0, atol=0)


def test_a_pass_knows_the_weights_that_its_layers_used() -> None:
    first, second = a_layer(), ModularLayer([nn.Linear(4, 4) for _ in range(3)], Shares(2, 3))
    network = MultiTaskNetwork(None, [first, second, second])
    running = Pass(1)
    network.compute(torch.randn(5, 4), running)
    allocations = [used.allocation for used in running.used]
    assert allocations == [first.allocation, second.allocation, second.allocation]
    assert_close(running.used[0].weights, torch.tensor([0.0, 1.0]))
    assert_close(running.used[1].weights, second.allocation.matrix()[1])


def test_a_pass_knows_the_weights_of_layers_inside_components() -> None:
    inner = [
        ModularLayer([nn.Linear(4, 4) for _ in range(2)], ByExample(2, 2, 4)) for _ in range(2)
    ]
    network = MultiTaskNetwork(None, [ModularLayer(inner, SharedBottom(2, 2))])
    running, x = Pass(1), torch.randn(5, 4)
    network.compute(x, running)
    found = {used.allocation: used.weights for used in running.used}
    for layer in inner:
        assert_close(found[layer.allocation], layer.allocation.weights(1, x))


def counts(network: MultiTaskNetwork) -> list[int]:
    found = [layer.allocation.n_batches for layer in network.modular_layers]
    return [int(count) for count in found if isinstance(count, Tensor)]


def test_batches_are_counted_in_training_unless_a_trainer_counts_them() -> None:
    layers = [
        ModularLayer([nn.Linear(4, 4) for _ in range(2)], allocation)
        for allocation in (GumbelMatrix(2, 2), Shares(2, 2))
    ]
    network, x = MultiTaskNetwork(None, layers), torch.randn(3, 4)
    network(x, 0)
    network(x, torch.tensor(1))
    assert counts(network) == [2, 2]
    network.compute(x, Pass(0))
    network.eval()(x, 0)
    assert counts(network) == [2, 2]


def test_draws_of_a_pass_are_divided_over_layers_of_both_sorts() -> None:
    def layer(allocation: GumbelMatrix | ByExample) -> ModularLayer:
        components = [nn.Linear(4, 4) for _ in range(allocation.n_components)]
        return ModularLayer(components, allocation)

    layers = [
        layer(GumbelMatrix(1, 2)),
        layer(ByExample(1, 3, 4, n_noise=3)),
        layer(GumbelMatrix(1, 3)),
        layer(ByExample(1, 2, 4, n_noise=2)),
    ]
    network = MultiTaskNetwork(None, layers)
    assert [made.span for made in layers] == [(0, 2), (0, 3), (2, 5), (3, 5)]
    x, gates, examples = torch.randn(6, 4), torch.rand(5), torch.rand(6, 5)
    y = x
    for made in layers:
        own = examples if made.allocation.sees_examples else gates
        first, last = made.span
        y = made(y, task=0, noise=own[..., first:last])
    assert_close(network(x, 0, noise=Noise(gates, examples=examples)), y)


def test_a_layer_that_is_called_twice_in_a_pass_counts_one_batch() -> None:
    layer = ModularLayer([nn.Linear(3, 3), nn.Linear(3, 3)], GumbelMatrix(2, 2))
    network = MultiTaskModel(nn.Sequential(layer, nn.ReLU(), layer))
    network(torch.randn(4, 3), 0)
    with for_task(1):
        layer(layer(torch.randn(4, 3)))
    assert layer.allocation.n_batches == 2


def test_a_loop_of_ones_own_learns_by_reward() -> None:
    allocation = ScoreFunctionMatrix(1, 2)
    layer = ModularLayer([nn.Linear(2, 1), nn.Linear(2, 1)], allocation)
    network = MultiTaskNetwork(None, [layer], task_names=["a"]).train()
    gradients = []
    for _ in range(6):
        network.zero_grad()
        with for_task(0) as running:
            loss = network(torch.ones(3, 2), "a").square().mean()
            (loss + running.auxiliary_loss(loss)).backward()
        running.observe(loss)
        assert allocation.logits.grad is not None
        gradients.append(allocation.logits.grad.abs().max().item())
    assert gradients[0] == 0.0  # the first batch sets the baseline
    assert max(gradients[1:]) > 0.0


def test_a_network_within_a_pass_counts_its_batch_once() -> None:
    layer = ModularLayer([nn.Linear(2, 1), nn.Linear(2, 1)], GumbelMatrix(1, 2))
    network = MultiTaskNetwork(None, [layer], task_names=["a"]).train()
    with for_task(0) as running:
        network(torch.ones(3, 2), "a")
    assert [used.allocation for used in running.used] == [layer.allocation]
    assert layer.allocation.n_batches == 1
    assert running.auxiliary_loss(torch.ones(())) == 0.0
