"""Runs one after another, where one tensor program cannot serve them, or where they are large."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pytest import MonkeyPatch, fixture, mark, param, raises, warns
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from allotment import plan
from allotment._engine import _plan
from allotment._engine._losses import MOST_SPECS
from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork
from allotment.tasks import Task
from allotment.training import Run
from tests.engine.test_tracing import LooksAtValues
from tests.engine.test_trainer import RUNS, assert_trained_plainly
from tests.training.reference import plainly_trained
from tests.training.toy import N_INPUTS, SETTINGS, a_network, a_run, classes, lines, outcomes_of


def absolute(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.view_as(targets) - targets).abs().mean()


def smoothed(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, label_smoothing=0.1)


def likelihood(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss for a head with two numbers: a mean and the log of a variance."""
    mean, log_variance = outputs.unbind(dim=1)
    return (log_variance + (mean - targets).square() / log_variance.exp()).mean()


def with_other_heads(seed: int) -> Run:
    def build() -> MultiTaskNetwork:
        heads = [nn.Sequential(nn.Tanh(), nn.Linear(4, 1)), nn.Linear(4, 1)]
        return a_network(GumbelMatrix(2, 3), heads)

    return a_run(seed, build=build)


def with_other_losses(seed: int) -> Run:
    first, second = lines()
    return a_run(seed, tasks=[first, replace(second, loss=absolute)])


def with_losses_of_its_own(seed: int) -> Run:
    return a_run(seed, tasks=[replace(task, loss=absolute) for task in lines()] if seed else None)


MANY_LOSSES = [partial(absolute) for _ in range(MOST_SPECS + 1)]


def with_many_losses(seed: int) -> Run:
    n_tasks = len(MANY_LOSSES)
    pairs = zip(lines(n_tasks), MANY_LOSSES, strict=True)
    tasks = [replace(task, loss=loss) for task, loss in pairs]
    return a_run(seed, tasks=tasks, build=lambda: a_network(GumbelMatrix(n_tasks, 3)))


def that_look_at_values(seed: int) -> Run:
    return a_run(seed, build=lambda: a_network(GumbelMatrix(2, 3), make=LooksAtValues))


def assert_plain(runs: list[Run]) -> None:
    """Asserts that runs that train together end like plainly written loops."""
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        for name, value in plainly_trained(run)[0].named_parameters():
            found = outcome.weights[name]
            assert_close(found, value.detach(), rtol=0, atol=1e-9, msg=f"{name}: {{}}".format)


@mark.usefixtures("double")
@mark.parametrize(
    ("make", "reason"),
    [
        param(with_other_heads, r"heads that are not all linear", id="heads"),
        param(with_losses_of_its_own, r"runs with different losses or targets", id="losses"),
        param(with_many_losses, r"tasks with more than 8 specs", id="many losses"),
        param(
            that_look_at_values,
            r"a component or a loss cannot be batched over runs \(.+\)",
            id="a component",
        ),
    ],
)
def test_runs_that_cannot_be_vmapped_train_one_by_one_with_one_warning(
    make: Callable[[int], Run], reason: str
) -> None:
    with warns(UserWarning, match=rf"^Training one run at a time: {reason}") as caught:
        assert_plain([make(0), make(1)])
    assert len(caught) == 1, [str(warning.message) for warning in caught]


@mark.usefixtures("double")
@mark.parametrize("make", [with_other_heads, with_other_losses, with_many_losses])
def test_a_lone_run_of_any_kind_equals_a_plainly_written_loop(make: Callable[[int], Run]) -> None:
    assert_plain([make(0)])


@mark.usefixtures("double")
@mark.parametrize("n_runs", [1, 2])
def test_a_loss_of_ones_own_sees_no_class_that_a_task_does_not_have(n_runs: int) -> None:
    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 2), nn.Linear(4, 4)])

    tasks = [replace(task, loss=smoothed) for task in classes(2, 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it is told is not the matter here
        assert_plain([a_run(seed, tasks=tasks, build=build) for seed in range(n_runs)])


@mark.usefixtures("double")
def test_regressions_may_have_heads_of_different_widths() -> None:
    first, second = lines()

    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 1), nn.Linear(4, 2)])

    assert_plain([a_run(tasks=[first, replace(second, loss=likelihood)], build=build)])


def test_an_error_that_a_lone_run_meets_too_is_the_users_to_see() -> None:
    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 3), make=lambda: nn.Linear(N_INPUTS + 1, 4))

    given = rf"component 0 \(linear 0\) of `layers\[0\]` with an input of shape \[B, {N_INPUTS}\]"
    with raises(ValueError, match=given) as raised:
        outcomes_of([a_run(seed, build=build) for seed in range(2)])
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_losses_that_are_one_function_keep_runs_vmapped() -> None:
    tasks = [Task(task.name, task.train, loss=absolute) for task in lines()]
    assert plan([a_run(seed, SETTINGS, tasks=tasks) for seed in range(2)]).is_vmapped


@fixture
def _all_are_large(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(_plan, "LARGE", 0)


@mark.usefixtures("double", "_all_are_large")
@mark.parametrize("make", RUNS[:7])
@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("trace", [param(True, marks=mark.slow), False], ids=["traced", "eager"])
def test_runs_on_streams_equal_plainly_written_loops(
    make: Callable[[], Run], schedule: str, trace: bool
) -> None:
    settings = make().settings.changed(schedule=schedule, trace=trace, rounds=12)
    runs = [replace(make(), seed=seed, settings=settings) for seed in (0, 5)]
    for each, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(each, outcome.weights, atol=1e-9)


@mark.usefixtures("_all_are_large")
def test_large_runs_that_are_fast_over_runs_are_vmapped(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(_plan, "_are_fast_over_runs", lambda network, device: True)
    assert plan([a_run(0), a_run(1)]).is_vmapped


@mark.usefixtures("_all_are_large")
def test_large_runs_that_cannot_be_vmapped_go_on_streams_in_silence(
    monkeypatch: MonkeyPatch,
) -> None:
    monkeypatch.setattr(_plan, "_are_fast_over_runs", lambda network, device: True)
    monkeypatch.setattr(_plan, "_why_not_vmapped", lambda forward, batch: "a reason")
    made = plan([a_run(0), a_run(1)])
    assert (made.runs.value, made.runs.reason) == ("on streams", "a reason")
    assert made.step.value == "traced"
