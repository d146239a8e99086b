"""Runs of a large network, which are computed apart: the same as together."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import torch
from pytest import MonkeyPatch, fixture, mark
from torch import nn

from allotment.paper.networks import SameConv2d
from allotment._ops import side_by_side
from allotment.training import Run
from allotment._engine import _passes
from allotment._engine._trainer import Program
from allotment._engine._parameters import Replicas

from tests.engine.test_trainer import RUNS, assert_trained_plainly, of_pictures
from tests.training.toy import SETTINGS, a_run, outcomes_of


@fixture
def _all_are_large(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(_passes, "LARGE", 0)


@mark.usefixtures("double", "_all_are_large")
@mark.parametrize("make", RUNS[:7])
@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("capture", [True, False], ids=["recorded", "not recorded"])
def test_runs_apart_equal_plainly_written_loops(
    make: Callable[[], Run], schedule: str, capture: bool
) -> None:
    run = make()
    settings = replace(run.settings, schedule=schedule, capture=capture, rounds=12)
    runs = [replace(make(), seed=seed, settings=settings) for seed in (0, 5)]
    for each, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(each, outcome.weights, atol=1e-9)


def passes_of(n_runs: int, *, capture: bool = False) -> _passes.Passes:
    run = of_pictures()
    run = replace(run, settings=replace(run.settings, capture=capture))
    return Program([run] * n_runs, torch.device("cpu")).passes


@mark.usefixtures("_all_are_large")
def test_large_runs_are_computed_apart_in_silence_and_recorded_all_the_same() -> None:
    passes = passes_of(2, capture=True)
    assert not passes.together and passes.can_be_recorded


def test_penalties_leave_the_streams_to_the_pass(monkeypatch: MonkeyPatch) -> None:
    found: list[tuple[str, bool]] = []

    def noting(calls: Any, shared: Any, *, undivided: Any = ()) -> Any:
        names = [getattr(call, "__name__", "all of a run") for call in calls]
        found.extend((name, place in undivided) for place, name in enumerate(names))
        return side_by_side(calls, shared, undivided=undivided)

    monkeypatch.setattr(_passes, "side_by_side", noting)
    outcomes_of([a_run(settings=replace(SETTINGS, budget=0.5))])
    assert set(found) == {("all of a run", False), ("loss", False), ("penalty", True)}


def test_a_network_is_large_by_the_operations_of_one_run(monkeypatch: MonkeyPatch) -> None:
    alone, both = passes_of(1).n_operations, passes_of(2).n_operations
    assert both == 2 * alone > 0
    for limit, together in ((alone, False), (alone + 1, True)):
        monkeypatch.setattr(_passes, "LARGE", limit)
        assert passes_of(2).together is together


@mark.parametrize(
    ("device", "convolution", "in_step"),
    [("cpu", SameConv2d, False), ("cuda", SameConv2d, True), ("cuda", nn.Conv2d, False)],
)
def test_on_a_gpu_large_runs_go_in_step_if_all_convolutions_are_ours(
    device: str, convolution: type[nn.Conv2d], in_step: bool
) -> None:
    layers = nn.Sequential(SameConv2d(2, 3, 1), nn.Sequential(convolution(3, 4, 3)))
    replicas = SimpleNamespace(device=torch.device(device), network=layers)
    assert _passes.goes_in_step(cast(Replicas, replicas)) is in_step


def test_large_runs_without_convolutions_do_not_go_in_step() -> None:
    replicas = SimpleNamespace(device=torch.device("cuda"), network=nn.Linear(2, 2))
    assert not _passes.goes_in_step(cast(Replicas, replicas))


@mark.usefixtures("_all_are_large")
def test_large_runs_that_go_in_step_are_computed_together(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(_passes, "goes_in_step", lambda replicas: True)
    assert passes_of(2).together


@mark.usefixtures("_all_are_large")
def test_large_runs_that_cannot_be_batched_go_side_by_side_in_silence(
    monkeypatch: MonkeyPatch,
) -> None:
    monkeypatch.setattr(_passes, "goes_in_step", lambda replicas: True)
    monkeypatch.setattr(_passes.Passes, "_why_not_batched", lambda self, batch: "a reason")
    passes = passes_of(2, capture=True)
    assert not passes.together and passes.can_be_recorded
