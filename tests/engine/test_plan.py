"""How steps are computed: decided once, with a reason for each choice."""

import random
import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import torch
from pytest import MonkeyPatch, mark, param, raises, warns
from torch import nn

from allotment import plan
from allotment._engine import ExecutionPlan, Trainer, _plan
from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import MultiTaskModel, MultiTaskNetwork
from allotment.paper.networks import SameConv2d
from allotment.training import Run
from tests.engine.test_balancing import Projecting
from tests.engine.test_run_by_run import (
    that_look_at_values,
    with_losses_of_its_own,
    with_many_losses,
    with_other_heads,
)
from tests.engine.test_tracing import Tossing, TossingNumpy, WarmingUp, a_run_of
from tests.engine.test_trainer import of_images, of_pictures
from tests.training.test_train import normed
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    fitted,
    mixed,
    mixed_network,
    outcomes_of,
)

ONE_BY_ONE = mark.filterwarnings("ignore:Training one run at a time")
EAGER = mark.filterwarnings("ignore:Training without a recorded step")


def plain(seed: int = 0, **changes: Any) -> Run:
    return a_run(seed, SETTINGS.changed(**changes))


class Told(nn.Module):
    """A model that is told the task."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = a_network(GumbelMatrix(2, 3)).layers

    def forward(self, x: torch.Tensor, task: int) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def of_told(seed: int = 0) -> Run:
    run = a_run(seed)
    return replace(run, model=MultiTaskModel(Told(), task_names=["line 0", "line 1"]))


def of_mixed(seed: int = 0, **changes: Any) -> Run:
    return a_run(seed, SETTINGS.changed(**changes), tasks=MIXED, build=mixed_network)


MIXED = mixed()
NUMBER = "takes? the task as a Python number|is given it as a Python number"


@ONE_BY_ONE
@mark.parametrize(
    ("runs", "value", "reason"),
    [
        param([plain(0)], "alone", "there is one run", id="one"),
        param([plain(0), plain(1)], "vmapped", "one tensor program serves all runs", id="two"),
        param([with_other_heads(s) for s in (0, 1)], "one by one", "heads that", id="heads"),
        param([of_told(s) for s in (0, 1)], "one by one", "`forward` takes the task", id="told"),
        param([with_losses_of_its_own(s) for s in (0, 1)], "one by one", "losses", id="losses"),
        param([with_many_losses(s) for s in (0, 1)], "one by one", "more than 8", id="many losses"),
        param([that_look_at_values(s) for s in (0, 1)], "one by one", "batched over", id="values"),
    ],
)
def test_how_runs_are_computed(runs: list[Run], value: str, reason: str) -> None:
    found = plan(runs).runs
    assert found.value == value
    assert reason in found.reason
    assert found.is_slower is (value == "one by one")


def test_large_runs_go_on_streams_which_is_not_slower(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(_plan, "LARGE", 0)
    found = plan([plain(0), plain(1)])
    assert found.runs.value == "on streams" and not found.runs.is_slower
    assert found.step.value == "traced"
    assert plan([plain(0)]).runs.value == "alone"


@mark.slow
def test_runs_are_large_by_the_operations_of_one(monkeypatch: MonkeyPatch) -> None:
    counted = [operations(replace(of_pictures(), seed=seed) for seed in range(n)) for n in (1, 2)]
    assert counted[1] == 2 * counted[0] > 0
    for limit, value in ((counted[0], "on streams"), (counted[0] + 1, "vmapped")):
        monkeypatch.setattr(_plan, "LARGE", limit)
        assert plan([of_pictures(), of_pictures()]).runs.value == value


def operations(runs: Any) -> int:
    """Returns the floating-point operations that the plan speaks of."""
    return int(plan(list(runs)).threads.reason.split()[3].replace(",", ""))


@mark.parametrize(
    ("device", "network", "are_fast"),
    [
        ("cpu", nn.Sequential(SameConv2d(2, 3, 1)), False),
        ("cuda", nn.Sequential(SameConv2d(2, 3, 1), nn.Sequential(SameConv2d(3, 4, 3))), True),
        ("cuda", nn.Sequential(SameConv2d(2, 3, 1), nn.Conv2d(3, 4, 3)), False),
        ("cuda", nn.Linear(2, 2), False),
    ],
)
def test_on_a_gpu_large_runs_are_batched_if_all_convolutions_are_fast_over_runs(
    device: str, network: nn.Module, are_fast: bool
) -> None:
    assert _plan._are_fast_over_runs(network, torch.device(device)) is are_fast


@ONE_BY_ONE
@EAGER
@mark.parametrize(
    ("runs", "value", "reason", "is_slower"),
    [
        param([plain()], "traced", "operations are replayed", False, id="traced"),
        param([plain(trace=False)], "eager", "`execution.trace` is off", False, id="off"),
        param([with_other_heads(0)], "eager", "Python number", False, id="heads"),
        param([that_look_at_values(s) for s in (0, 1)], "eager", "one by one", False, id="runs"),
        param([that_look_at_values(0)], "eager", "value", True, id="values"),
        param([a_run_of(WarmingUp)], "eager", "`n_passes` of WarmingUp", True, id="counting"),
        param([a_run_of(Tossing)], "eager", "Python's `random`", True, id="random"),
        param([a_run_of(TossingNumpy)], "eager", "NumPy's generator", True, id="numpy"),
        param([a_run_of(normed)], "eager", "a pass changes buffers", False, id="batch norm"),
        param(
            [plain(schedule="joint", loss_balancing=Projecting())],
            "eager",
            "asks for each task's gradients",
            False,
            id="gradients",
        ),
        param([plain(optimizer=torch.optim.SGD)], "traced", "replayed", False, id="own optimizer"),
    ],
)
def test_how_a_step_is_computed(runs: list[Run], value: str, reason: str, is_slower: bool) -> None:
    found = plan(runs).step
    assert found.value == value
    assert reason in found.reason
    assert found.is_slower is is_slower


def test_where_no_steps_are_left_none_is_recorded() -> None:
    found = Trainer([plain()], torch.device("cpu"), is_over=True).plan.step
    assert (found.value, found.reason, found.is_slower) == ("eager", "no steps are left.", False)


@mark.slow
@mark.filterwarnings("ignore", "error:Training without")  # torch's compiler has words of its own
def test_a_compiled_step_is_the_step_itself() -> None:
    runs = [plain(compile=True), plain(trace=False)]
    assert plan(runs[:1]).step.value == "compiled"
    compiled, eager = (outcomes_of([run])[0].weights for run in runs)
    for name, value in eager.items():
        torch.testing.assert_close(compiled[name], value, rtol=0, atol=1e-5)


@mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_step_is_a_cuda_graph_unless_an_optimizer_of_ones_own_takes_it() -> None:
    assert plan([plain()], device="cuda").step.value == "CUDA graph"
    found = plan([plain(optimizer=torch.optim.SGD)], device="cuda").step
    assert found.value == "eager" and "from Python" in found.reason


@mark.parametrize(
    ("runs", "value", "reason"),
    [
        param([plain()], "tensor", "looked up by it", id="a lone run"),
        param([of_mixed()], "tensor", "looked up by it", id="mixed losses, traced"),
        param([of_mixed(trace=False)], "number", "the loss of its own task alone", id="eager"),
        param([with_other_heads(0)], "number", "heads that are not all linear", id="heads"),
        param([of_told()], "number", "a model whose `forward` takes the task", id="told"),
    ],
)
def test_in_which_form_a_pass_is_given_its_task(runs: list[Run], value: str, reason: str) -> None:
    found = plan(runs).task
    assert found.value == value and reason in found.reason


def test_a_small_program_has_one_thread_and_a_large_one_all(monkeypatch: MonkeyPatch) -> None:
    assert plan([plain(trace=False)]).threads.value == "one"
    run = of_images()
    large = replace(run, settings=run.settings.changed(trace=False))
    counted = operations([large])
    monkeypatch.setattr(_plan, "SMALL", counted)
    assert plan([large]).threads.value == "all"
    monkeypatch.setattr(_plan, "SMALL", counted + 1)
    assert plan([large]).threads.value == "one"


def test_annealing_begins_where_the_network_stands() -> None:
    network = a_run().network
    assert plan([a_run()]).annealing.value == "batch 0"
    fitted(network, rounds=20)
    found = plan([replace(a_run(), model=network)]).annealing
    assert (found.value, found.reason) == (
        "batch 40",
        "the network has made that many passes in training mode, and goes on.",
    )


def test_a_look_at_a_shape_is_not_called_training() -> None:
    run = a_run()
    x = torch.randn(3, N_INPUTS)
    run.network.eval()(x, 0)
    assert plan([run]).annealing.value == "batch 0"
    run.network.train()(x, 0)
    found = plan([run]).annealing
    assert (found.value, "trained" in found.reason) == ("batch 1", False)


def test_a_plan_is_a_value() -> None:
    made = plan([plain(0), plain(1)])
    assert made == plan([plain(0), plain(1)]) and made.is_vmapped
    with raises(FrozenInstanceError):
        made.device = "cuda"  # type: ignore[misc]
    with raises(FrozenInstanceError):
        made.runs.value = "alone"  # type: ignore[misc]


def test_a_plan_prints_every_choice_with_its_reason() -> None:
    made = plan([plain(seed) for seed in range(3)])
    title, *lines = str(made).splitlines()
    assert title == "3 runs on cpu"
    assert [line.split()[0] for line in lines] == list(ExecutionPlan.__dataclass_fields__)[2:]
    assert "  runs       vmapped: one tensor program serves all runs." in lines
    assert str(plan([plain()])).startswith("1 run on cpu\n")


def test_planning_trains_nothing_and_draws_nothing() -> None:
    run = plain()
    before = {name: value.clone() for name, value in run.network.state_dict().items()}
    states = torch.get_rng_state(), random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    plan([run])
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), repr(np.random.get_state())) == states[1:]  # noqa: NPY002
    assert all(torch.equal(value, before[name]) for name, value in run.network.state_dict().items())


@mark.parametrize(
    ("make", "n_runs", "told"),
    [
        (with_other_heads, 2, r"^Training one run at a time: heads that are not all linear"),
        (
            that_look_at_values,
            2,
            r"^Training one run at a time: a component or a loss .*control flow",
        ),
        (that_look_at_values, 1, r"^Training without a recorded step, which is slower: .*value"),
    ],
)
def test_what_is_slower_is_told_once_with_its_cause(
    make: Callable[[int], Run], n_runs: int, told: str
) -> None:
    with warns(UserWarning, match=told) as caught:
        outcomes_of([make(seed) for seed in range(n_runs)])
    assert len(caught) == 1, [str(warning.message) for warning in caught]


@mark.parametrize("make", [plain, with_other_heads, with_many_losses, of_mixed, of_told])
def test_a_lone_run_of_any_kind_trains_in_silence(make: Callable[[int], Run]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcomes_of([make(0)])


def test_a_network_of_one_kind_trains_in_silence_with_others() -> None:
    def build() -> MultiTaskNetwork:
        return a_network(SharedBottom(2, 2))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcomes_of([a_run(seed, build=build) for seed in range(2)])
