"""The same modules at every depth, mixed anew for each task and depth."""

import torch
from pytest import mark
from torch.testing import assert_close

from allotment.allocation import SoftmaxMatrix
from allotment.experiments import using
from allotment.experiments.structures import soft_ordering
from allotment.modules import MultiTaskNetwork, TaskNetwork
from allotment.modules._heads import HeadList
from allotment.paper.networks import (
    clusters_network,
    digits_network,
    mnist_network,
    omniglot_network,
    pairs_network,
)
from allotment.training import fit
from tests.experiments.structures.toy import a_run, assert_runs_train_together, put_together
from tests.training.toy import N_INPUTS

SOFT = using(SoftmaxMatrix)
FOUR = {"a": 4, "b": 3, "c": 2, "d": 5}


def lists(network: TaskNetwork) -> list[int]:
    """Returns which list of components each layer has, as the number of the first with it."""
    firsts = [layer.components[0] for layer in network.modular_layers]
    return [firsts.index(first) for first in firsts]


def test_the_outputs_are_those_of_modules_that_are_mixed_at_each_depth() -> None:
    network = put_together(soft_ordering, SOFT)
    assert isinstance(network, MultiTaskNetwork) and isinstance(network.heads, HeadList)
    modules = list(network.modular_layers[0].components)
    logits = torch.randn(2, 2, 2)  # of each depth, task and module
    for own, layer in zip(logits, network.modular_layers, strict=True):
        layer.allocation.get_parameter("logits").data = own
    x = torch.randn(5, N_INPUTS)
    for task in range(2):
        y = network.stem(x)
        for depth in range(2):
            shares = logits[depth, task].softmax(0)
            y = sum(share * module(y) for share, module in zip(shares, modules, strict=True))
            y = network.layers[2](network.layers[1](y)) if depth == 0 else y
        expected = network.heads[task](y)
        assert_close(network.train()(x, task), expected)
        assert_close(network.eval()(x, task), expected)


def test_a_gradient_is_the_sum_over_depths() -> None:
    tied = put_together(soft_ordering, SOFT)
    untied = put_together(lambda build, *rest: build(*rest), SOFT)
    untied.load_state_dict(tied.state_dict())
    x = torch.randn(5, N_INPUTS)
    for network in (tied, untied):
        network(x, 0).sum().backward()
    for name, shared in tied.modular_layers[0].components.named_parameters():
        depths = [layer.components.get_parameter(name).grad for layer in untied.modular_layers]
        assert all(gradient is not None and gradient.any() for gradient in depths)
        assert_close(shared.grad, depths[0] + depths[1])  # type: ignore[operator]


@mark.usefixtures("double")
def test_runs_train_together() -> None:
    assert_runs_train_together(soft_ordering, SOFT)


def test_modules_stay_tied_in_training() -> None:
    run = a_run(soft_ordering, SOFT)
    network = run.network
    before = network.modular_layers[0].components[0].get_parameter("0.weight").clone()
    fit(network, run.tasks, run.settings)
    first, second = network.modular_layers
    for a, b in zip(first.components, second.components, strict=True):
        assert a is b
    assert not torch.equal(first.components[0].get_parameter("0.weight"), before)
    state = network.state_dict()
    for name in ("0.weight", "0.bias"):
        same = [state[f"layers.{place}.components.1.{name}"] for place in (0, 3)]
        assert torch.equal(*same)


@mark.parametrize(
    ("network", "expected"),
    [
        (pairs_network, [0]),
        (digits_network, [0, 1]),  # the first has one channel, the second four
        (mnist_network, [0, 1, 1]),
        (clusters_network, [0, 0, 0]),
        (omniglot_network, [0, 0, 2, 0, 0, 2, 0, 2]),  # strides of 2, and of 1
    ],
)
def test_layers_share_components_where_they_have_the_same(
    network: object, expected: list[int]
) -> None:
    assert lists(put_together(soft_ordering, SOFT, network=network, outputs=FOUR)) == expected


@mark.parametrize(("network", "shape"), [(digits_network, (1, 8, 8)), (pairs_network, (128,))])
def test_networks_of_the_paper_are_put_together(network: object, shape: tuple[int, ...]) -> None:
    made = put_together(soft_ordering, SOFT, network=network, outputs=FOUR)
    n_outputs = 3 if network is digits_network else 1
    assert made(torch.randn(2, *shape), "b").shape == (2, n_outputs)
