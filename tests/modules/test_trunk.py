"""Several tasks extracted as one module: the network's outputs, each shared piece once."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, ClassVar

import torch
from pytest import mark, param, raises
from torch import Tensor, nn

from allotment import MultiTaskModel, MultiTaskNetwork, PerTask, extract, modularize
from allotment.allocation import FixedMatrix
from allotment.modules import ModularLayer, TaskMask, TaskNetwork
from tests.modules.blocks import Attention, Block, Model, causal
from tests.modules.test_model import Told

TASKS = ["a", "b", "c"]


class Counted(nn.Linear):
    """A linear layer that says how often it was computed."""

    calls: ClassVar[Counter[int]] = Counter()

    def forward(self, x: Tensor) -> Tensor:
        Counted.calls[id(self)] += 1
        return super().forward(x)


def n_evaluations(module: nn.Module, *arguments: Any) -> int:
    """Returns how many layers that count a pass has computed."""
    Counted.calls.clear()
    module(*arguments)
    return Counted.calls.total()


def layer(rows: Sequence[Sequence[int]], n_features: int = 4) -> ModularLayer:
    components = [Counted(n_features, n_features) for _ in rows[0]]
    return ModularLayer(components, FixedMatrix(rows))


def in_a_row(*rows: Sequence[Sequence[int]]) -> MultiTaskNetwork:
    """Returns a network of a stem and layers with ReLUs between, and heads that do not count."""
    layers = [part for own in rows for part in (layer(own), nn.ReLU(inplace=True))]
    heads = {name: nn.Linear(4, n) for n, name in enumerate(TASKS, start=1)}
    return MultiTaskNetwork(Counted(4, 4), layers, heads)


@torch.no_grad()
def assert_same_to_the_bit(network: TaskNetwork, tasks: list[str], *arguments: Any) -> None:
    """Asserts that tasks extracted together have the network's outputs in evaluation."""
    found = extract(network, tasks)(*arguments)
    assert list(found) == tasks
    for name in tasks:
        x, *others = arguments
        assert torch.equal(found[name], network.eval()(x, name, *others)), name


ALIKE = [[1, 1, 0], [1, 1, 0], [0, 1, 1]]


@mark.parametrize(
    ("rows", "tasks", "n"),
    [
        # The stem, and of each layer what the tasks use on the same input.
        param([ALIKE], ["a", "b"], 1 + 2, id="one row"),
        param([ALIKE], ["a", "c"], 1 + 3, id="a component in common"),
        param([ALIKE, ALIKE], ["a", "b"], 1 + 2 + 2, id="two layers alike"),
        param([ALIKE, ALIKE], ["a", "c"], 1 + 3 + 4, id="inputs differ from the second on"),
        param([ALIKE, ALIKE], TASKS, 1 + 3 + 4, id="all"),
        param([[[1], [1], [0]], [[1], [1], [1]]], TASKS, 1 + 1 + 2, id="nothing of a layer"),
    ],
)
def test_what_tasks_share_is_computed_once(
    rows: list[list[list[int]]], tasks: list[str], n: int
) -> None:
    network, x = in_a_row(*rows), torch.randn(5, 4)
    assert_same_to_the_bit(network, tasks, x)
    assert n_evaluations(extract(network, tasks), x) == n


def test_a_pass_remembers_nothing_of_the_one_before() -> None:
    network = in_a_row(ALIKE, ALIKE)
    own, x = extract(network, TASKS), torch.randn(5, 4)
    first = {name: y.clone() for name, y in own(x).items()}
    x.mul_(2.0)  # the same tensor with other numbers
    assert not torch.equal(own(x)["a"], first["a"])
    assert_same_to_the_bit(network, TASKS, x)


def test_parameters_are_shared_and_not_copied() -> None:
    network = in_a_row(ALIKE, ALIKE)
    of_a_linear = 4 * 4 + 4
    own = extract(network, TASKS)
    heads = sum(4 * n + n for n in (1, 2, 3))
    assert sum(p.numel() for p in own.parameters()) == 7 * of_a_linear + heads
    pair = extract(network, ["a", "b"])
    assert sum(p.numel() for p in pair.parameters()) == 5 * of_a_linear + heads - (4 * 3 + 3)
    theirs = {id(parameter) for parameter in network.parameters()}
    assert not theirs & {id(parameter) for parameter in own.parameters()}  # as for one task


def test_a_model_at_any_depth() -> None:
    blocks = [Block(Attention(4), Counted(4, 4), 4) for _ in "ab"]
    rows = iter([ALIKE, ALIKE])
    network = modularize(
        Model(*blocks),
        {"blocks.0.dense": 3, "blocks.1.dense": 3},
        heads={name: nn.Linear(4, 2) for name in TASKS},
        allocation=lambda n_tasks, n: FixedMatrix(next(rows)),
        component="new",
    )
    x = torch.randn(3, 5, 4)
    assert_same_to_the_bit(network, TASKS, x, causal(5))
    # Of block 0 three components on one input; of block 1 two, and two on another input.
    assert n_evaluations(extract(network, TASKS), x) == 3 + 4


def test_a_body_of_modules_computes_its_beginning_once() -> None:
    class Body(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low = nn.Sequential(Counted(4, 4), nn.ReLU(inplace=True), Counted(4, 4))
            self.high = layer(ALIKE)

        def forward(self, x: Tensor) -> Tensor:
            h = self.low(x)
            y: Tensor = torch.relu(self.high(h)) + h
            return y

    network = MultiTaskModel(Body(), {name: nn.Linear(4, 1) for name in TASKS})
    assert_same_to_the_bit(network, TASKS, torch.randn(5, 4))
    assert n_evaluations(extract(network, TASKS), torch.randn(5, 4)) == 2 + 3


def test_a_model_that_is_exported_computes_what_is_shared_once() -> None:
    network = modularize(
        Model(*(Block(Attention(4), Counted(4, 4), 4) for _ in "ab")),
        {"blocks.1.dense": 3},
        heads={name: nn.Linear(4, 2) for name in TASKS},
        allocation=lambda n_tasks, n: FixedMatrix(ALIKE),
        component="new",
    )
    own, x = extract(network, TASKS), torch.randn(3, 5, 4)
    exported = torch.export.export(own, (x,))
    products = [node for node in exported.graph.nodes if "linear" in str(node.target)]
    assert len(products) == 3 + 3 + len(TASKS)
    assert all(torch.equal(y, own(x)[name]) for name, y in exported.module()(x).items())


def test_outputs_changed_in_place_are_computed_anew() -> None:
    class Body(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low = Counted(4, 4)
            self.high = layer(ALIKE)

        def forward(self, x: Tensor) -> Tensor:
            h = self.low(x)
            y: Tensor = self.high(h)
            y += h.tanh_()  # what `low` gave is no longer there
            return y

    network, x = MultiTaskModel(Body(), task_names=TASKS), torch.randn(5, 4)
    assert_same_to_the_bit(network, TASKS, x)
    with torch.inference_mode():  # which does not count changes
        found = extract(network, TASKS)(x)
        assert all(torch.equal(found[name], network(x, name)) for name in TASKS)


def test_components_are_remembered_as_a_whole() -> None:
    def part() -> nn.Module:
        return nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4))

    layer = ModularLayer([part(), part()], FixedMatrix([[1, 1], [0, 1]]))
    network = MultiTaskNetwork(None, [layer], task_names=["a", "b"]).eval()
    x = torch.randn(3, 4)
    both = extract(network, ["a", "b"])
    torch.testing.assert_close(both(x)["b"], network(x.clone(), "b"))
    torch.testing.assert_close(both(x)["a"], network(x.clone(), "a"))
    assert (x < 0).any()  # another's input stays as it is
    # Looking up what a linear layer gave takes longer than a small one.
    assert sum(type(module) is nn.Linear for module in both.modules()) == 2


def test_parts_that_tasks_have_by_name_or_by_channel() -> None:
    shared = Counted(4, 4)
    stem = PerTask({"a": shared, "b": shared, "c": Counted(4, 4)})
    network = MultiTaskNetwork(stem, [layer(ALIKE), TaskMask(3, 4)], task_names=TASKS)
    x = torch.randn(5, 4)
    assert_same_to_the_bit(network, TASKS, x)
    assert n_evaluations(extract(network, ["a", "b"]), x) == 1 + 2
    assert n_evaluations(extract(network, TASKS), x) == 2 + 4


def test_a_body_that_is_told_its_task() -> None:
    heads = [nn.Linear(4, n) for n in (1, 2, 3)]
    network = MultiTaskModel(Told(3), heads, task_names=TASKS)
    assert_same_to_the_bit(network, ["a", "c"], torch.randn(5, 4))


def test_layers_inside_components_of_others() -> None:
    def inner() -> nn.Module:
        return nn.Sequential(layer(ALIKE), nn.ReLU())

    rows = [[1, 0, 1], [1, 0, 0], [1, 1, 0]]
    outer = ModularLayer([inner(), inner(), Counted(4, 4)], FixedMatrix(rows))
    network = MultiTaskNetwork(None, [outer, nn.ReLU()], [nn.Linear(4, 2)] * 3, task_names=TASKS)
    x = torch.randn(5, 4)
    assert_same_to_the_bit(network, TASKS, x)
    # Three of the first, two of the second for "c" alone, one for "a".
    assert n_evaluations(extract(network, TASKS), x) == 3 + 2 + 1
    assert n_evaluations(extract(network, ["a", "b"]), x) == 2 + 1


def test_it_is_copied_trained_and_exported() -> None:
    own, x = extract(in_a_row(ALIKE, ALIKE), TASKS), torch.randn(5, 4)
    again = deepcopy(own)
    torch.cat(list(own.train()(x).values()), dim=1).sum().backward()
    assert all(parameter.grad is not None for parameter in own.eval().parameters())
    assert all(torch.equal(y, own(x)[name]) for name, y in again(x).items())
    assert n_evaluations(again, x) == n_evaluations(own, x)
    exported = torch.export.export(own, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    products = [node for node in exported.graph.nodes if "linear" in str(node.target)]
    assert len(products) == 1 + 3 + 4 + len(TASKS)
    more = torch.randn(9, 4)
    assert all(torch.equal(y, own(more)[name]) for name, y in exported.module()(more).items())


@mark.parametrize(
    ("tasks", "sentence"),
    [
        ([], r"`task` should be a task or a list of different tasks. Found \[\]"),
        (["a", 0], r"list of different tasks. Found \['a', 'a'\]"),
        (["a", "d"], r"should be one of \['a', 'b', 'c'\]. Found 'd'"),
        (["a", 3], r"should be in 0 to 2. Found 3"),
    ],
)
def test_tasks_that_are_not_there_or_twice(tasks: list[int | str], sentence: str) -> None:
    with raises(ValueError, match=sentence):
        extract(in_a_row(ALIKE), tasks)
