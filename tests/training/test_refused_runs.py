"""Runs and tasks that cannot go through one trainer."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from pytest import mark, param, raises
from torch import Tensor

from allotment.allocation import Annealing, GumbelMatrix, SharedBottom
from allotment.tasks import Split, Task
from allotment.training import Run, plan
from tests.training.toy import N_INPUTS, SETTINGS, Line, a_network, a_run, outcomes_of, progress_of


def of_gates(seed: int, **options: Any) -> Run:
    return a_run(seed, build=lambda: a_network(GumbelMatrix(2, 3, **options)))


ALIKE = r"equal settings, but for learning rates, `budget` and `budget_weight`\. Found `rounds` 10"


@mark.parametrize(
    ("runs", "message"),
    [
        param(list, r"`runs` should hold at least one run\. Found none\.", id="none"),
        param(
            lambda: [a_run(0), a_run(1, SETTINGS.changed(weight_decay=0.02))],
            r"Found `weight_decay` 0\.0 in one and 0\.02 in another\.",
            id="weight decay",
        ),
        param(lambda: [a_run(0), a_run(1, SETTINGS.changed(rounds=20))], ALIKE, id="rounds"),
        param(
            lambda: [a_run(0), a_run(1, build=lambda: a_network(GumbelMatrix(2, 4)))],
            r"temperatures and fixed allocations\. Found that `names` of .* once for each kind\.",
            id="numbers of components",
        ),
        param(
            lambda: [a_run(0), a_run(1, build=lambda: a_network(SharedBottom(2, 3)))],
            r"Found that `layers\.0\.allocation` is GumbelMatrix in one and SharedBottom",
            id="learnt and fixed gates",
        ),
        param(
            lambda: [of_gates(0), of_gates(1, temperature=lambda step: 1 / (step + 1.0))],
            r"temperatures and fixed allocations\. Found that `temperature` of `layers.0.alloc",
            id="ways of annealing",
        ),
        param(
            lambda: [
                of_gates(0, evaluation="sampled"),
                of_gates(1, temperature=Annealing(start=5.0)),
            ],
            r"temperatures and fixed allocations\. Found that `evaluation` of `layers.0.alloc",
            id="evaluations",
        ),
    ],
)
def test_runs_that_cannot_go_together_are_refused(
    runs: Callable[[], Sequence[Run]], message: str
) -> None:
    with raises(ValueError, match=message):
        progress_of(runs())


ONE_KIND = (
    r"^The tasks of a network should have inputs of one shape, type and scale, all arrays or all "
    r"generated\. Found {} for task 'a' and {} for task 'b'\.$"
)
FLOATS = r"arrays of shape \[6\], torch\.float32, scale 1"


def arrays(*shape: int, n: int = 8, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.zeros(n, *shape, dtype=dtype), torch.zeros(n)


class Narrow(Line):
    """Fresh samples with one number less."""

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, y = super().draw(n, generator)
        return x[:, 1:], y


@mark.parametrize(
    "second",
    [
        param(arrays(N_INPUTS, dtype=torch.uint8), id="types"),
        param(Split(*arrays(N_INPUTS), scale=0.5), id="scales"),
        param(Line(0), id="arrays and generated"),
    ],
)
def test_tasks_may_have_different_inputs(second: object) -> None:
    runs = [a_run(tasks=[Task("a", arrays(N_INPUTS)), Task("b", second)])]
    (outcome,) = outcomes_of(runs)
    assert outcome.status == "finished"
    assert "tasks have different inputs" in str(plan(runs))


@mark.parametrize(
    ("first", "second"),
    [
        param(arrays(N_INPUTS), arrays(N_INPUTS - 1), id="arrays"),
        param(Line(0), Narrow(1), id="generated"),
    ],
)
def test_inputs_that_a_network_does_not_take_are_refused(first: object, second: object) -> None:
    with raises(ValueError, match=r"Found the network, for task 'b', with .* \[B, 5"):
        progress_of([a_run(tasks=[Task("a", first), Task("b", second)])])


@mark.parametrize(
    "second",
    [
        param(torch.zeros(8), id="one kind"),
        param(torch.zeros(8, 1), id="shapes"),
        param(torch.zeros(8, dtype=torch.float64), id="types"),
        param(torch.zeros(8, dtype=torch.uint8), id="numbers and labels"),
    ],
)
def test_tasks_may_have_different_targets(second: Tensor) -> None:
    x, first = arrays(N_INPUTS)
    (outcome,) = outcomes_of([a_run(tasks=[Task("a", (x, first)), Task("b", (x, second))])])
    assert outcome.status == "finished"


def test_tasks_may_have_different_numbers_of_examples() -> None:
    tasks = [Task("a", arrays(N_INPUTS, n=5)), Task("b", arrays(N_INPUTS, n=50))]
    (outcome,) = outcomes_of([a_run(tasks=tasks)])
    assert outcome.status == "finished"
