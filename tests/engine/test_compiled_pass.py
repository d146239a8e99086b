"""Passes that are compiled where no step can be recorded."""

from collections.abc import Callable
from typing import Any

import torch
from pytest import MonkeyPatch, mark, raises
from torch import nn
from torch.testing import assert_close

from allotment.allocation import GumbelMatrix
from allotment.tasks import MultiLabel, Stream, Task
from allotment.training import Run, fit, plan
from tests.training.toy import SETTINGS, a_network, classes

COMPILED = SETTINGS.changed(compile=True)


def streamed(sizes: tuple[int, ...] = (8,)) -> list[Task]:
    """Returns tasks whose batches come one by one, in these sizes by turns."""
    tasks = []
    for task in classes(3, 4):
        x, y = task.train.examples()
        ends = [sizes[i % len(sizes)] for i in range(40 // max(sizes))]
        x, y = x[: sum(ends)], y[: sum(ends)]
        tasks.append(Task(task.name, Stream(list(zip(x.split(ends), y.split(ends), strict=True)))))
    return tasks


def a_run(tasks: list[Task], **changes: Any) -> Run:
    torch.manual_seed(0)
    network = a_network(GumbelMatrix(2, 3, p_init=0.9), [nn.Linear(4, 3), nn.Linear(4, 4)])
    return Run(network, tasks, 0, COMPILED.changed(**changes))


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def test_the_plan_says_that_a_pass_is_compiled(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", as_it_is)  # it would take half a minute
    step = plan([a_run(streamed())]).step
    assert step.value == "compiled pass" and not step.is_slower
    assert step.reason.startswith("a pass is fused, and no whole step: batches are fetched one by")
    assert plan([a_run(streamed(), compile=False)]).step.value == "eager"
    assert plan([a_run(streamed(), trace=False)]).step.value == "eager"


def test_what_cannot_be_compiled_is_told(monkeypatch: MonkeyPatch) -> None:
    def fails(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            raise RuntimeError("no compiler here")

        return call

    monkeypatch.setattr(torch, "compile", fails)
    with raises(UserWarning, match=r"a pass cannot be compiled \(no compiler here\)"):
        plan([a_run(streamed())])


def test_one_pass_for_all_tasks_is_not_compiled(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", as_it_is)
    x, y = classes(3)[0].train.examples()
    shared = MultiLabel([(x, {"classes 0": y, "classes 1": y})])
    tasks = [Task(f"classes {n}", shared) for n in range(2)]
    assert plan([a_run(tasks, schedule="multi_label")]).step.value == "eager"


@mark.slow
@mark.filterwarnings("ignore", "error:Training without")  # torch's compiler has words of its own
@mark.parametrize("sizes", [(8,), (8, 5, 7)])
def test_compiled_passes_learn_the_same(sizes: tuple[int, ...]) -> None:
    compiled, eager = a_run(streamed(sizes)), a_run(streamed(sizes), compile=False)
    found, wanted = (fit(run.model, run.tasks, run.settings) for run in (compiled, eager))
    assert_close(found.history[-1].losses, wanted.history[-1].losses, rtol=1e-4, atol=1e-5)
    for name, value in eager.model.state_dict().items():
        assert_close(compiled.model.state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_a_cpu_computes_streams_in_full_precision() -> None:
    runs = (
        a_run(streamed(), compile=False),
        a_run(streamed(), compile=False, mixed_precision="bfloat16"),
    )
    for run in runs:
        fit(run.model, run.tasks, run.settings)
    for name, value in runs[0].model.state_dict().items():
        assert_close(runs[1].model.state_dict()[name], value, rtol=0, atol=0)
