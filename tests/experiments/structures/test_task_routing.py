"""Random masks after each modular layer of a shared network."""

from functools import partial

import torch
from pytest import mark, raises
from torch import nn
from torch.testing import assert_close

from allotment.allocation import SharedBottom
from allotment.experiments import using
from allotment.experiments.structures import task_routing
from allotment.modules import ModularLayer, MultiTaskNetwork, TaskMask, TaskNetwork
from allotment.modules._heads import HeadList
from allotment.paper.networks import (
    clusters_network,
    digits_network,
    mnist_network,
    omniglot_network,
    pairs_network,
)
from tests.experiments.structures.toy import a_run, assert_runs_train_together, put_together
from tests.training.toy import N_INPUTS, weights_of

MEAN = using(SharedBottom, reduce="mean")
FOUR = {"a": 4, "b": 3, "c": 2, "d": 5}


def masks(network: TaskNetwork) -> list[TaskMask]:
    return [module for module in network.modules() if isinstance(module, TaskMask)]


def test_the_outputs_are_those_of_a_shared_network_with_channels_left_out() -> None:
    network = put_together(task_routing, MEAN)
    assert isinstance(network, MultiTaskNetwork) and isinstance(network.heads, HeadList)
    first, second = network.modular_layers
    x = torch.randn(5, N_INPUTS)
    for task in range(2):
        y = network.stem(x)
        for layer, mask in zip((first, second), masks(network), strict=True):
            y = sum(component(y) for component in layer.components) / 2 * mask.mask[task]
            if layer is first:
                linear = next(module for module in network.layers if isinstance(module, nn.Linear))
                y = torch.relu(linear(y))
        expected = network.heads[task](y)
        assert_close(network.train()(x, task), expected)
        assert_close(network.eval()(x, torch.tensor(task)), expected)


@mark.usefixtures("double")
def test_runs_train_together_with_masks_of_their_own() -> None:
    assert_runs_train_together(task_routing, MEAN)
    a, b = (masks(a_run(task_routing, MEAN, seed).network)[0].mask for seed in range(2))
    assert not torch.equal(a, b)


def test_training_leaves_masks_as_they_are() -> None:
    run = a_run(task_routing, MEAN, weight_decay=10.0, rounds=20)
    end = weights_of(run)
    start = run.network.state_dict()
    names = [name for name in start if name.endswith(".mask")]
    assert len(names) == 2
    for name in names:
        assert torch.equal(end[name], start[name])
    assert not torch.equal(end["stem.weight"], start["stem.weight"])


@mark.parametrize(
    ("network", "n_channels"),
    [
        (digits_network, [4, 4]),
        (mnist_network, [4, 4, 4]),
        (clusters_network, [8] * 3),
        (omniglot_network, [48] * 8),
    ],
)
def test_there_is_a_mask_for_the_channels_of_each_layer(
    network: object, n_channels: list[int]
) -> None:
    made = put_together(task_routing, MEAN, network=network, outputs=FOUR)
    assert [mask.n_channels for mask in masks(made)] == n_channels
    assert isinstance(made, MultiTaskNetwork)
    kinds = [type(layer) for layer in made.layers]
    for place, kind in enumerate(kinds):
        assert (kind is TaskMask) == (place > 0 and kinds[place - 1] is ModularLayer)
    if network is digits_network:
        assert made(torch.randn(2, 1, 8, 8), "b").shape == (2, 3)


def test_a_share_of_one_is_the_shared_network() -> None:
    torch.manual_seed(5)
    everything = put_together(partial(task_routing, share=1.0), MEAN)  # type: ignore[arg-type]
    torch.manual_seed(5)
    plain = put_together(lambda build, *rest: build(*rest), MEAN)
    x = torch.randn(5, N_INPUTS)
    assert_close(everything(x, 1), plain(x, 1))


def test_a_network_without_features_to_mask_is_refused() -> None:
    rule = r"^`network` should have features to mask .* Found a network whose modular layer gives"
    with raises(ValueError, match=rule):
        put_together(task_routing, MEAN, network=pairs_network, outputs=FOUR)


def test_a_layer_that_does_not_tell_its_channels_is_refused() -> None:
    def pools(allocate: object, outputs: dict[str, int]) -> MultiTaskNetwork:
        layer = ModularLayer([nn.AvgPool2d(2), nn.MaxPool2d(2)], allocate(2))  # type: ignore[operator]
        heads = {name: nn.Linear(4, n) for name, n in outputs.items()}
        return MultiTaskNetwork(None, [layer, nn.Flatten()], heads)

    rule = r"which tells how many channels come out\. Found avgpool2d, maxpool2d"
    with raises(ValueError, match=rule):
        put_together(task_routing, MEAN, network=pools, outputs=FOUR)
