"""Named parts of a model made modular."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from pytest import mark, param, raises
from torch import nn
from torch.testing import assert_close

from allotment import modularize
from allotment.allocation import (
    Allocation,
    ChampionChallenger,
    GumbelMatrix,
    MMoE,
    NoSharing,
    SharedBottom,
)
from allotment.experiments import using
from allotment.modules import ModularLayer
from tests.modules.blocks import Attention, Block, Model, causal

TASKS = ["a", "b"]


def a_model() -> Model:
    """Returns two transformer blocks for features of size 4."""
    first, second = (
        Block(Attention(4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), 4) for _ in "ab"
    )
    return Model(first, second)


def heads() -> dict[str, nn.Module]:
    return {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)}


PARTS = [
    param({"blocks.0.attention": 3}, id="attention"),
    param({"blocks.1": 2}, id="a block"),
    param({"blocks.0.dense.0": 4, "blocks.1.attention": 2}, id="at two depths"),
    param({"blocks.1.attention": 2, "blocks.0.dense": 2}, id="not in order"),
]


@mark.filterwarnings("ignore:Copies of")  # they need not learn here
@mark.parametrize("parts", PARTS)
@mark.parametrize("is_training", [True, False])
@mark.parametrize("allocate", [GumbelMatrix, lambda t, c: SharedBottom(t, c, reduce="mean")])
def test_the_network_starts_as_the_model(
    parts: dict[str, int], is_training: bool, allocate: Callable[[int, int], Allocation]
) -> None:
    model, x, mask = a_model(), torch.randn(3, 5, 4), causal(5)
    network = modularize(model, parts, tasks=TASKS, allocation=allocate).train(is_training)
    for layer in network.modular_layers:
        if isinstance(layer.allocation, GumbelMatrix):  # at least one gate is open in each draw
            layer.allocation.logits.data[:, 0] = torch.tensor([50.0, -50.0])
    expected = model(x, mask)
    for task in TASKS:
        assert_close(network(x, task, mask), expected, rtol=1e-4, atol=1e-5)


@mark.parametrize("parts", PARTS)
def test_components_are_copies_that_start_from_the_weights_of_the_part(
    parts: dict[str, int],
) -> None:
    model = a_model()
    network = modularize(model, parts, tasks=TASKS)
    for name, n in parts.items():
        original, layer = model.get_submodule(name), network.body.get_submodule(name)
        assert isinstance(layer, ModularLayer)
        assert len(layer.components) == n
        assert layer.names == [f"{name} {letter}" for letter in "ABCD"[:n]]
        assert layer.kinds == [name] * n
        for component in layer.components:
            assert_close(component.state_dict(), original.state_dict(), rtol=0, atol=0)
        pointers = {id(p) for c in [original, *layer.components] for p in c.parameters()}
        assert len(pointers) == (n + 1) * len(list(original.parameters()))


def test_the_model_stays_as_it_was() -> None:
    model, x = a_model(), torch.randn(3, 5, 4)
    names, before = list(dict(model.named_modules())), model(x)
    network = modularize(model, {"blocks.0": 3}, heads=heads())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    assert list(dict(model.named_modules())) == names
    assert_close(model(x), before, rtol=0, atol=0)


def test_names_come_from_the_heads_or_the_caller() -> None:
    network = modularize(a_model(), {"blocks.0": 3}, heads=heads())
    assert network.task_names == TASKS
    assert network(torch.randn(2, 5, 4), "b").shape == (2, 3)
    listed = modularize(a_model(), {"blocks.0": 3}, heads=list(heads().values()), tasks=["x", "y"])
    assert listed.task_names == ["x", "y"]
    by_module = modularize(a_model(), {"blocks.0": 3}, heads=nn.ModuleDict(heads()), dropout=0.25)
    assert by_module.task_names == TASKS and by_module.dropout == 0.25
    without = modularize(a_model(), {"blocks.0": 3}, tasks=TASKS)
    assert without.heads is None and without(torch.randn(2, 5, 4), "b").shape == (2, 4)


@mark.filterwarnings("ignore:Copies of")
def test_an_allocation_is_made_from_the_numbers_of_tasks_and_components() -> None:
    network = modularize(
        a_model(), {"blocks.0": 2, "blocks.1": 4}, tasks=TASKS, allocation=NoSharing
    )
    rows = [[1, 0, 1, 1, 0, 0], [0, 1, 0, 0, 1, 1]]
    assert_close(network.matrix(), torch.tensor(rows, dtype=torch.float32))


def test_parts_learn_apart() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    network = modularize(model, {"2": 2}, heads=heads(), allocation=NoSharing)
    network(torch.randn(5, 4), "a").sum().backward()
    (layer,) = network.modular_layers
    moved = [any(bool(p.grad.any()) for p in c.parameters()) for c in layer.components]  # type: ignore[union-attr]
    assert moved == [True, False]


@mark.parametrize(
    ("parts", "words"),
    [
        ({"blocks.0.atention": 2}, r"Found 'blocks\.0\.atention', .*Did you mean.*blocks\.0\.att"),
        ({"": 2}, r"should name modules inside the model\. Found '', "),
        ({"blocks.7": 2}, r"Found 'blocks\.7', which is not among \['blocks', 'blocks\.0', "),
        ({"blocks.0": 2, "blocks.0.dense": 3}, r"Found 'blocks\.0\.dense' inside 'blocks\.0'\."),
        ({"blocks.0.dense": 3, "blocks.0": 2}, r"Found 'blocks\.0\.dense' inside 'blocks\.0'\."),
        ({"blocks.0": 0}, r"`parts\['blocks\.0'\]` should be at least 1\."),
        ({}, r"at least one ModularLayer\. Found none\."),
    ],
)
def test_parts_that_are_not_there_are_named(parts: dict[str, int], words: str) -> None:
    with raises(ValueError, match=words):
        modularize(a_model(), parts, tasks=TASKS)


@mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"model": nn.Linear}, TypeError, r"`model` should be a module\. Found the class Linear\."),
        ({"tasks": None}, ValueError, r"`tasks` or `heads` should say how many tasks .* neither\."),
        ({"parts": {"blocks.0": 2.5}}, TypeError, r"`parts\['blocks\.0'\]` should be a whole num"),
        ({"heads": nn.Linear(4, 1)}, TypeError, r"`heads` should be a dict or a list with a mod"),
        (
            {"heads": heads(), "tasks": ["b", "a"]},
            ValueError,
            r"those of the heads, in their order",
        ),
    ],
)
def test_bad_input(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    usual: dict[str, Any] = {"model": a_model(), "parts": {"blocks.0": 2}, "tasks": TASKS}
    with raises(error, match=words):
        modularize(**usual | arguments)


@mark.parametrize(
    ("part", "x"),
    [
        (nn.Sequential(nn.ReLU(), nn.Linear(4, 5)), torch.ones(2, 4)),
        (nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten()), torch.ones(2, 3, 3, 3)),
    ],
)
@mark.parametrize("allocation", [MMoE, using(MMoE), using(GumbelMatrix)])
def test_an_allocation_is_told_the_features_of_its_part(
    part: nn.Module, x: torch.Tensor, allocation: Callable[..., Allocation]
) -> None:
    network = modularize(nn.Sequential(part), {"0": 3}, tasks=TASKS, allocation=allocation)
    assert network(x, "b").shape == (2, 5)


def test_an_allocation_is_told_the_place_of_its_part_in_the_model() -> None:
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)])
    allocation = using(ChampionChallenger, n_each=7)
    options: dict[str, Any] = {"tasks": TASKS, "allocation": allocation, "component": "new"}
    network = modularize(model, {"2": 3, "0": 3, "1": 3}, **options)
    found = [own for own in network.modules() if isinstance(own, ChampionChallenger)]
    assert [(own.depth, own.n_layers, own.n_each) for own in found] == [
        (depth, 3, 7) for depth in range(3)
    ]
    # One challenger for the whole network, as published: it differs in one of the layers.
    differ = torch.stack([(own.members[:, 0] != own.members[:, 1]).any(dim=1) for own in found])
    assert differ.sum(dim=0).tolist() == [1, 1]


def test_features_that_a_part_does_not_tell_are_the_callers() -> None:
    model = nn.Sequential(nn.LayerNorm(4))
    rule = "Parts should have a linear layer or a convolution where `allocation` takes `n_feat"
    with raises(ValueError, match=rule + r"ures`\. Found none in '0' \(LayerNorm\); .* MMoE\("):
        modularize(model, {"0": 3}, tasks=TASKS, allocation=MMoE)
    with raises(ValueError, match="MMoE should be given `n_features`"):
        modularize(model, {"0": 3}, tasks=TASKS, allocation=using(MMoE))
    for allocation in (partial(MMoE, n_features=4), using(MMoE, n_features=4)):
        network = modularize(model, {"0": 3}, tasks=TASKS, allocation=allocation)
        assert network(torch.ones(2, 4), "a").shape == (2, 4)


def test_features_that_the_caller_gives_stay() -> None:
    model = nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(8, 4)))
    network = modularize(model, {"0": 2}, tasks=TASKS, allocation=partial(MMoE, n_features=2))
    assert network(torch.ones(3, 2, 4), "a").shape == (3, 4)


@mark.parametrize("allocation", [GumbelMatrix(2, 2), None])
def test_an_allocation_that_is_made_already_is_refused(allocation: Any) -> None:
    found = "a GumbelMatrix" if allocation else "None"
    with raises(TypeError, match=rf"`allocation` should be a class, .* Found {found}\."):
        modularize(a_model(), {"blocks.0": 2}, tasks=TASKS, allocation=allocation)


def test_one_text_is_no_list_of_tasks() -> None:
    with raises(TypeError, match=r"`tasks` should be a list of names, such as \['price'\]\. Found"):
        modularize(a_model(), {"blocks.0": 2}, tasks="price")
    assert modularize(a_model(), {"blocks.0": 2}, tasks=["price"]).task_names == ["price"]
