"""What one run trains, and what it refuses."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise

from pytest import mark, param, raises
from torch import nn

from allotment.network import GumbelMatrix, ModularLayer, MultiTaskNetwork, SharedBottom
from allotment.tasks import Task
from allotment.training import Run, fit

from .toy import SETTINGS, Line, a_network, classes, lines


def tasks_named(*names: str) -> list[Task]:
    return [Task(name, Line(position)) for position, name in enumerate(names)]


@mark.parametrize(
    ("tasks", "expectation"),
    [
        (lines(2), does_not_raise()),
        (lines(1), raises(ValueError, match=r"as many as the network has\. Found 1 tasks for 2")),
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


NAMES = r"`tasks` should have the names and the order of the network's tasks\. Found "


@mark.parametrize(
    ("names", "expectation"),
    [
        param(["a", "b"], does_not_raise(), id="the same"),
        param(
            ["b", "a"],
            raises(ValueError, match=NAMES + r"\['b', 'a'\] for \['a', 'b'\]\."),
            id="another order",
        ),
        param(
            ["a", "c"],
            raises(ValueError, match=NAMES + r"\['a', 'c'\] for \['a', 'b'\]\."),
            id="another name",
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
            raises(ValueError, match=r"classes 1.*at least 4.*Found.*3"),
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
