"""A task's own part of a model: modular layers at any depth, masks, and a body that knows tasks."""

import torch
from pytest import mark
from torch import Tensor, nn

from allotment import MultiTaskModel, MultiTaskNetwork, extract, modularize
from allotment.allocation import Allocation, FixedMatrix, GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, TaskNetwork
from tests.allocation.made_up import Shares
from tests.modules.blocks import Attention, Block, Model, causal
from tests.modules.test_model import Told

TASKS = ["a", "b", "c"]


def learnt(n_tasks: int, n_components: int) -> Allocation:
    """Returns gates of which each task has others open."""
    matrix = GumbelMatrix(n_tasks, n_components)
    matrix.logits.data.normal_()
    return matrix


def a_network() -> MultiTaskModel:
    """Returns a model with three modular parts, whose components have weights of their own."""
    blocks = [Block(Attention(4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), 4) for _ in "ab"]
    parts = {"blocks.0.attention": 4, "blocks.0.dense.0": 3, "blocks.1": 3}
    heads = {name: nn.Linear(4, 2 + n) for n, name in enumerate(TASKS)}
    network = modularize(Model(*blocks), parts, heads=heads, allocation=learnt)
    for parameter in network.body.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.5)
    return network


@torch.no_grad()
def assert_same_to_the_bit(network: TaskNetwork, x: object, *arguments: object) -> None:
    """Asserts that each task's own part has the network's outputs in evaluation."""
    network.eval()
    for task in network.task_names:
        own = extract(network, task)
        assert torch.equal(own(x, *arguments), network(x, task, *arguments))
        held = (Allocation, ModularLayer)
        assert not any(isinstance(module, held) for module in own.modules())


@mark.parametrize("arguments", [(), (causal(5),)], ids=["no mask", "mask"])
def test_a_model_at_any_depth(arguments: tuple[Tensor, ...]) -> None:
    assert_same_to_the_bit(a_network(), torch.randn(3, 5, 4), *arguments)


def test_arguments_by_name_are_taken_too() -> None:
    network, x = a_network().eval(), torch.randn(3, 5, 4)
    expected = network(x, "b", mask=causal(5), scale=0.3)
    assert torch.equal(extract(network, "b")(x, mask=causal(5), scale=0.3), expected)
    assert not torch.equal(extract(network, "b")(x), expected)


def test_a_network_of_layers_whose_components_take_masks() -> None:
    layer = ModularLayer([Attention(4) for _ in range(3)], learnt(3, 3))
    network = MultiTaskNetwork(nn.Linear(4, 4), [layer, nn.ReLU()], [nn.Linear(4, 2)] * 3)
    assert_same_to_the_bit(network, torch.randn(3, 5, 4), causal(5))


@mark.parametrize("has_heads", [True, False])
def test_a_body_that_is_told_its_task(has_heads: bool) -> None:
    heads = [nn.Linear(4, n) for n in (1, 2, 3)] if has_heads else None
    assert_same_to_the_bit(MultiTaskModel(Told(3), heads), torch.randn(5, 4))


@mark.parametrize("matrix", [[[1, 0], [1, 1]], [[0, 0], [0, 1]]], ids=str)
def test_a_body_that_is_a_modular_layer(matrix: list[list[int]]) -> None:
    layer = ModularLayer([nn.Linear(4, 3) for _ in range(2)], FixedMatrix(matrix))
    assert_same_to_the_bit(MultiTaskModel(layer), torch.randn(5, 4))
    x = torch.randn(5, 4)
    assert torch.equal(extract(layer, 1)(x), layer.eval()(x, task=1))  # a plain module too


def test_shares_that_are_not_binary() -> None:
    layer = ModularLayer([nn.Linear(4, 3) for _ in range(4)], Shares(2, 4))
    assert_same_to_the_bit(MultiTaskModel(nn.Sequential(layer)), torch.randn(5, 4))


def test_a_modular_layer_inside_a_component_of_another() -> None:
    def inner() -> nn.Module:
        return nn.Sequential(ModularLayer([nn.Linear(4, 4) for _ in range(3)], learnt(2, 3)))

    outer = ModularLayer([nn.Linear(4, 4), inner(), inner()], FixedMatrix([[0, 1, 1], [0, 0, 1]]))
    assert_same_to_the_bit(MultiTaskModel(nn.Sequential(outer)), torch.randn(5, 4))


def test_a_layer_in_two_places_stays_one() -> None:
    layer = ModularLayer([nn.Linear(4, 4) for _ in range(2)], SharedBottom(2, 2))
    for network in (
        MultiTaskModel(nn.Sequential(layer, nn.ReLU(), nn.Sequential(layer))),
        MultiTaskNetwork(None, [layer, nn.ReLU(), layer]),
    ):
        assert_same_to_the_bit(network, torch.randn(5, 4))
        assert len(list(extract(network, 0).parameters())) == 4


def test_a_component_that_stands_alone_too_is_given_a_mask_in_its_layer_only() -> None:
    shared = Attention(4)
    layer = ModularLayer([shared, Attention(4)], FixedMatrix([[1, 0], [0, 1]]))
    network = MultiTaskNetwork(None, [shared, layer])
    assert_same_to_the_bit(network, torch.randn(3, 5, 4), causal(5))


def test_a_model_stays_as_it_is() -> None:
    network = a_network().train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    own = extract(network, "a")
    with torch.no_grad():
        for parameter in own.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(network.state_dict()[name], value) for name, value in before.items())
    assert all(module.training for module in network.modules())
    assert not any(module.training for module in own.modules())


def test_it_goes_through_torch_export() -> None:
    own, x, mask = extract(a_network(), "b"), torch.randn(4, 5, 4), causal(5)
    exported = torch.export.export(own, (x, mask))
    with torch.no_grad():
        assert torch.equal(exported.module()(x, mask), own(x, mask))
