"""The paper's networks: their shapes, and where their gates are."""

from collections.abc import Callable, Mapping

import torch
from pytest import mark
from torch import nn

from allotment.allocation import GumbelByExample, GumbelMatrix, NoSharing, SharedBottom
from allotment.modules import MultiTaskNetwork
from allotment.paper.networks import (
    Allocate,
    clusters_network,
    digits_network,
    mnist_network,
    omniglot_network,
    pairs_network,
    transfer_network,
)

FOUR = {"1a": 1, "1b": 2, "2a": 10, "2b": 3}
TWO = {"a": 1, "b": 1}


def n_numbers(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_transfer_network_has_shallow_and_deep_components_in_turn() -> None:
    network = transfer_network(lambda c, **_: NoSharing(2, c), TWO)
    (layer,) = network.modular_layers
    shallow, deep = 128 * 4 + 4, 128 * 4 + 4 + 4 * 4 + 4
    assert [n_numbers(component) for component in layer.components] == [shallow, deep] * 2
    assert layer.names == ["shallow", "deep"] * 2
    assert network(torch.randn(3, 128), 1).shape == (3, 1)
    rows = network.matrix().tolist()
    used = [[name for name, gate in zip(layer.names, row, strict=True) if gate] for row in rows]
    assert used == [["shallow", "deep"]] * 2


def test_the_outputs_of_transfer_components_are_not_negative() -> None:
    network = transfer_network(lambda c, **_: NoSharing(2, c), TWO)
    (layer,) = network.modular_layers
    x = torch.randn(50, 128)
    assert all((component(x) >= 0).all() for component in layer.components)


def test_the_pairs_network_has_four_components_of_three_layers_and_no_heads() -> None:
    network = pairs_network(lambda c, **_: GumbelMatrix(4, c), FOUR)
    (layer,) = network.modular_layers
    size = 128 * 16 + 16 + 16 * 16 + 16 + 16 + 1
    assert [n_numbers(component) for component in layer.components] == [size] * 4
    assert network.heads is None
    assert network.task_names == list(FOUR)
    outputs = layer.components[0](torch.randn(200, 128))
    assert outputs.shape == (200, 1)
    assert (outputs < 0).any() and (outputs > 0).any()  # no ReLU at the end


def test_the_digits_network_takes_small_images() -> None:
    network = digits_network(lambda c, **_: GumbelMatrix(4, c), FOUR)
    assert network.layer_sizes == (4, 4)
    assert network.task_names == list(FOUR)
    for name, n_outputs in FOUR.items():
        assert network(torch.randn(3, 1, 8, 8), name).shape == (3, n_outputs)


def test_the_mnist_network_hands_36_features_to_its_heads() -> None:
    network = mnist_network(lambda c, **_: GumbelMatrix(4, c), FOUR)
    sizes = [
        [n_numbers(component) for component in layer.components] for layer in network.modular_layers
    ]
    assert sizes == [[4 * 25 + 4] * 4, [4 * 4 * 9 + 4] * 4, [4 * 4 * 9 + 4] * 4]
    assert network.dropout == 0.5
    assert isinstance(network.heads, nn.ModuleList)
    assert [n_numbers(head) for head in network.heads] == [37 * n for n in FOUR.values()]
    for name, n_outputs in FOUR.items():
        assert network(torch.randn(3, 1, 28, 28), name).shape == (3, n_outputs)


@mark.parametrize(
    "build",
    [
        transfer_network,
        pairs_network,
        digits_network,
        mnist_network,
        omniglot_network,
        clusters_network,
    ],
)
def test_every_network_starts_from_glorots_values(
    build: Callable[[Allocate, Mapping[str, int]], MultiTaskNetwork],
) -> None:
    network = build(lambda c, **_: SharedBottom(4, c), FOUR)
    biases = [p for name, p in network.named_parameters() if name.endswith("bias")]
    assert all((bias == 0).all() for bias in biases)


def test_an_allocation_starts_as_it_was_made() -> None:
    made: list[GumbelByExample] = []

    def allocate(n_components: int, *, n_features: int, **_: int) -> GumbelByExample:
        made.append(GumbelByExample(4, n_components, n_features=n_features))
        starts.append({name: p.detach().clone() for name, p in made[-1].named_parameters()})
        return made[-1]

    starts: list[dict[str, torch.Tensor]] = []
    digits_network(allocate, FOUR)
    for allocation, start in zip(made, starts, strict=True):
        assert all(torch.equal(p, start[name]) for name, p in allocation.named_parameters())
