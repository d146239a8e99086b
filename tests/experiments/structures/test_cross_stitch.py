"""Columns of tasks, mixed after every layer."""

from collections.abc import Mapping

import torch
from pytest import mark, raises
from torch import nn
from torch.testing import assert_close

from allotment.allocation import CrossStitch
from allotment.experiments import Allocate, using
from allotment.experiments.structures import cross_stitch
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.modules._heads import HeadList
from allotment.paper.networks import (
    clusters_network,
    digits_network,
    mnist_network,
    omniglot_network,
    pairs_network,
)
from tests.experiments.structures.toy import assert_runs_train_together, put_together
from tests.training.toy import N_INPUTS

STITCHED = using(CrossStitch)
FOUR = {"a": 4, "b": 3, "c": 2, "d": 5}


def test_the_outputs_are_those_of_columns_that_are_mixed_at_each_depth() -> None:
    network = put_together(cross_stitch, STITCHED)
    assert isinstance(network, MultiTaskNetwork) and isinstance(network.heads, HeadList)
    first, second = network.modular_layers
    for layer in (first, second):
        layer.allocation.get_parameter("table").data = torch.randn(2, 2)
    x = torch.randn(5, N_INPUTS)
    y = [component(network.stem(x)) for component in first.components]
    a = first.allocation.matrix()
    y = [a[t, 0] * y[0] + a[t, 1] * y[1] for t in range(2)]
    y = [torch.relu(network.layers[1](part)) for part in y]
    y = [component(part) for component, part in zip(second.components, y, strict=True)]
    b = second.allocation.matrix()
    for task in range(2):
        expected = network.heads[task](b[task, 0] * y[0] + b[task, 1] * y[1])
        for training in (True, False):
            network.train(training)
            assert_close(network(x, task), expected)
            assert_close(network(x, torch.tensor(task)), expected)


def test_a_task_s_loss_reaches_the_mixtures_of_all_columns_and_its_own_at_last() -> None:
    network = put_together(cross_stitch, STITCHED)
    network(torch.randn(50, N_INPUTS), 0).square().sum().backward()
    inner, last = (layer.allocation.get_parameter("table").grad for layer in network.modular_layers)
    assert inner is not None and last is not None
    assert inner.all()
    assert last[0].all() and not last[1].any()


@mark.usefixtures("double")
def test_runs_train_together() -> None:
    assert_runs_train_together(cross_stitch, STITCHED)


@mark.parametrize(
    ("network", "shape", "sizes"),
    [
        (digits_network, (1, 8, 8), (4, 4)),
        (pairs_network, (128,), (4,)),
        (mnist_network, (1, 28, 28), (4, 4, 4)),
        (clusters_network, (3, 32, 32), (16, 16, 16)),
        (omniglot_network, (1, 105, 105), (28,) * 8),  # seven kinds, so four networks
    ],
)
def test_networks_of_the_paper_are_put_together(
    network: object, shape: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    made = put_together(cross_stitch, STITCHED, network=network, outputs=FOUR)
    assert made.layer_sizes == sizes
    assert made.matrix().shape == made.probabilities().shape == (4, sum(sizes))
    assert len(set(made.component_names)) > 1
    if network is not omniglot_network:
        n_outputs = 1 if network is pairs_network else 3
        assert made(torch.randn(2, *shape), "b").shape == (2, n_outputs)


def test_a_network_is_built_for_each_task_where_components_cannot_be_divided() -> None:
    three = {"a": 1, "b": 1, "c": 1}
    made = put_together(cross_stitch, STITCHED, outputs=three)
    assert made.layer_sizes == (6, 6)
    assert made.component_names[:3] == ("sequential 0 0", "sequential 1 0", "sequential 0 1")
    last = made.modular_layers[1]
    assert last.reads == [0, 0, 1, 1, 2, 2]
    assert made(torch.randn(5, N_INPUTS), "c").shape == (5, 1)


def test_statistics_of_a_batch_between_columns_are_refused() -> None:
    def normed(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
        first, second = (
            ModularLayer([nn.Linear(3, 3), nn.Linear(3, 3)], allocate(2)) for _ in range(2)
        )
        layers = [nn.BatchNorm1d(3), first, nn.Sequential(nn.BatchNorm1d(3)), second]
        return MultiTaskNetwork(None, layers, task_names=list(outputs))

    with raises(ValueError, match=r"treat each example for itself, .* Found BatchNorm1d"):
        put_together(cross_stitch, STITCHED, network=normed)
