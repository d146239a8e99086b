"""What one run trains, and what it refuses."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from dataclasses import replace
from typing import Any

from pytest import mark, param, raises
from torch import nn

from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.tasks import Task
from allotment.training import Run, fit
from tests.training.toy import SETTINGS, Line, a_network, classes, lines


def tasks_named(*names: str) -> list[Task]:
    return [Task(name, Line(position)) for position, name in enumerate(names)]


@mark.parametrize(
    ("tasks", "expectation"),
    [
        (lines(2), does_not_raise()),
        (lines(1), raises(ValueError, match=r"as many as the network has\. Found 1 task for 2")),
        (lines(3), raises(ValueError, match=r"as many as the network has\. Found 3 tasks for 2")),
        ([], raises(ValueError, match=r"tasks with different names\. Found \[\]\.")),
        (
            tasks_named("a", "a"),
            raises(ValueError, match=r"tasks with different names\. Found \['a', 'a'\]\."),
        ),
    ],
    ids=["two", "one", "three", "none", "one name"],
)
def test_tasks_are_as_many_as_the_network_has(
    tasks: Sequence[Task], expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        Run(a_network(GumbelMatrix(2, 3)), tasks)


NAMES = r"`tasks` should have the names of the network's tasks\. Found tasks "


@mark.parametrize(
    ("names", "expectation"),
    [
        param(["a", "b"], does_not_raise(), id="the same"),
        param(["b", "a"], does_not_raise(), id="another order"),
        param(
            ["a", "c"],
            raises(ValueError, match=NAMES + r"\['a', 'c'\] for a network of \['a', 'b'\]\."),
            id="another name",
        ),
        param(
            ["a"],
            raises(ValueError, match=NAMES + r"\['a'\] for a network of \['a', 'b'\]\."),
            id="a name is missing",
        ),
        param(
            ["a", "b", "c"],
            raises(ValueError, match=NAMES + r"\['a', 'b', 'c'\] for a network of \['a', 'b'\]\."),
            id="one name more",
        ),
    ],
)
def test_tasks_have_the_names_of_their_heads(
    names: list[str], expectation: AbstractContextManager[object]
) -> None:
    heads = {name: nn.Linear(4, 1) for name in ("a", "b")}
    components = [nn.Linear(6, 4), nn.Linear(6, 4)]
    network = MultiTaskNetwork(None, [ModularLayer(components, SharedBottom(2, 2))], heads)
    with expectation:
        Run(network, tasks_named(*names))


@mark.parametrize(
    ("width", "expectation"),
    [
        param(4, does_not_raise(), id="as many"),
        param(5, does_not_raise(), id="more"),
        param(
            3,
            raises(ValueError, match=r"'classes 1' .* from 0 to 2, .* 3 outputs .*the label 3 in"),
            id="fewer",
        ),
    ],
)
def test_heads_are_as_wide_as_their_tasks_need(
    width: int, expectation: AbstractContextManager[object]
) -> None:
    network = a_network(SharedBottom(2, 2), [nn.Linear(4, 2), nn.Linear(4, width)])
    with expectation:
        fit(network, classes(2, 4), SETTINGS)


@mark.parametrize(
    ("every", "with_validation", "expectation"),
    [
        (None, False, does_not_raise()),
        (10, True, does_not_raise()),
        (
            10,
            False,
            raises(
                ValueError,
                match=r"has a validation split\. Found `evaluate_every = 10` and none\.",
            ),
        ),
    ],
)
def test_validation_checks_need_a_validation_split(
    every: int | None, with_validation: bool, expectation: AbstractContextManager[object]
) -> None:
    first, second = classes(2, 2)
    tasks = [replace(first, validation=None), second]
    tasks = tasks if with_validation else [replace(task, validation=None) for task in tasks]
    with expectation:
        Run(a_network(SharedBottom(2, 2)), tasks, 0, SETTINGS.changed(evaluate_every=every))


NETWORK = a_network(SharedBottom(2, 2))


@mark.parametrize(
    ("arguments", "message"),
    [
        param(
            {"model": [NETWORK, NETWORK]},
            r"`network` should be one network, .*Found a list of MultiTaskNetwork\. Several train",
            id="networks",
        ),
        param({"model": "resnet"}, r"a module with modular layers in it\. Found a str", id="name"),
        param(
            {"tasks": lines(2)[0]}, r"`tasks` should be a list of Task\. Found a Task", id="task"
        ),
        param(
            {"tasks": {"a": lines(1)[0]}}, r"a list of Task\. Found a dict\.", id="dict of tasks"
        ),
        param({"tasks": ["a", "b"]}, r"a list of Task\. Found a list of str\.", id="names"),
        param({"seed": 1.0}, r"`seed` should be a whole number\. Found `seed = 1.0`", id="seed"),
        param({"settings": {"rounds": 3}}, r"be TrainingSettings\. Found a dict\.", id="settings"),
    ],
)
def test_arguments_of_another_kind_are_refused(arguments: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"model": NETWORK, "tasks": lines(2)}
    with raises(TypeError, match=message):
        Run(**good | arguments)


def test_a_module_without_a_modular_layer_is_refused() -> None:
    with raises(ValueError, match=r"should hold at least one ModularLayer\. Found none\."):
        Run(nn.Linear(6, 1), lines(2))


def test_tasks_are_put_in_the_order_of_the_network() -> None:
    network = a_network(SharedBottom(2, 2), {"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)})
    assert [task.name for task in Run(network, tasks_named("b", "a")).tasks] == ["a", "b"]
    unnamed = a_network(SharedBottom(2, 2))
    assert [task.name for task in Run(unnamed, tasks_named("b", "a")).tasks] == ["b", "a"]


def test_a_run_takes_any_module_with_modular_layers() -> None:
    layer = ModularLayer([nn.Linear(6, 4), nn.Linear(6, 4)], SharedBottom(2, 2))
    run = Run(nn.Sequential(layer, nn.Linear(4, 1)), lines(2))
    assert run.network.task_names == ["line 0", "line 1"]
