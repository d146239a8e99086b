"""Runs whose losses stop being numbers, and those beside them."""

from typing import Any

import numpy as np
import torch
from pytest import mark
from torch import Tensor, nn

from allotment._streams import stream_seed
from allotment.allocation import SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.settings import Execution, TrainingSettings
from allotment.tasks import Task
from allotment.training import Run, train
from tests.training.toy import (
    SETTINGS,
    Line,
    a_network,
    a_run,
    assert_same_end,
    lines,
    outcomes_of,
    progress_of,
)


class Poisoned(Line):
    """A line whose labels in one round of a run are not numbers."""

    def __init__(self, task: int, *, seed: int, round: int, value: float) -> None:
        super().__init__(task)
        self.round, self.value = round, value
        self.poisoned = stream_seed(seed, f"samples/{task}", round // 10)

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        is_poisoned = generator.initial_seed() == self.poisoned
        x, y = super().draw(n, generator)
        if is_poisoned:
            y.view(10, -1)[self.round % 10] = self.value
        return x, y


def poisoned_run(seed: int, round: int, value: float, settings: TrainingSettings) -> Run:
    tasks = [lines()[0], Task("line 1", Poisoned(1, seed=seed, round=round, value=value))]
    return a_run(seed, settings, tasks=tasks)


@mark.usefixtures("double")
@mark.parametrize(("value", "round"), [(float("nan"), 0), (float("nan"), 17), (float("inf"), 10)])
def test_a_run_that_fails_is_marked_and_the_others_end_as_if_alone(
    value: float, round: int
) -> None:
    settings = SETTINGS.changed(rounds=20, clip_norm=1.0)
    runs = [a_run(0, settings), poisoned_run(1, round, value, settings), a_run(2, settings)]
    first, failed, last = outcomes_of(runs)
    assert failed.status == "failed"
    assert failed.failed_step is not None and failed.failed_step // 2 == round
    assert not np.isfinite(failed.final_loss)
    for seed, outcome in ((0, first), (2, last)):
        assert outcome.status == "finished" and outcome.failed_step is None
        assert_same_end(outcome, outcomes_of([a_run(seed, settings)])[0])


def test_a_failure_is_told_in_the_block_where_it_happens() -> None:
    settings = SETTINGS.changed(rounds=30)
    runs = [a_run(0, settings), poisoned_run(1, 14, float("nan"), settings)]
    told = [progress.failed for progress in progress_of(runs)]
    assert told[0] == [None, None]
    assert all(failed[0] is None and failed[1] in (28, 29) for failed in told[1:])


def test_a_run_that_diverges_is_marked() -> None:
    def build() -> MultiTaskNetwork:
        network = a_network(SharedBottom(2, 2))
        for parameter in network.layers[1].parameters():
            nn.init.constant_(parameter, 1e30)
        return network

    (outcome,) = outcomes_of([a_run(build=build)])
    assert (outcome.status, outcome.failed_step) == ("failed", 0)


class Spoiling(torch.autograd.Function):
    """Nothing, but for one gradient that is not a number."""

    n_left = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        Spoiling.n_left -= 1
        return gradient * (float("nan") if Spoiling.n_left == 0 else 1.0)


@mark.parametrize(("n_steps", "status"), [(6, "failed"), (7, "finished")])
def test_a_last_update_that_is_not_finite_is_seen(n_steps: int, status: str) -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        error = (outputs.squeeze(1) - targets).square().mean()
        return Spoiling.apply(error)  # type: ignore[no-untyped-call, no-any-return]

    Spoiling.n_left = n_steps
    tasks = [Task(name, (torch.randn(8, 3), torch.randn(8)), loss=loss) for name in "ab"]
    layer = ModularLayer([nn.Linear(3, 1)], SharedBottom(2, 1))
    network = MultiTaskNetwork(None, [layer], task_names=["a", "b"])
    settings = TrainingSettings(rounds=3, execution=Execution(trace=False))
    (outcome,) = outcomes_of([Run(network, tasks, 0, settings)])
    assert outcome.status == status
    assert outcome.failed_step == (5 if status == "failed" else None)


def test_a_failure_after_a_stop_is_told_with_its_place_in_the_whole() -> None:
    settings = SETTINGS.changed(rounds=40)
    runs = [a_run(0, settings), poisoned_run(1, 25, float("nan"), settings)]
    for progress in train(runs):
        if progress.round == 20 and progress.state is not None:
            state = progress.state()
    *_, last = train(runs, resume_from=state)
    assert last.outcomes is not None and progress.outcomes is not None
    failed = last.outcomes[1].failed_step
    assert failed == progress.outcomes[1].failed_step
    assert failed is not None and failed // 2 == 25  # two tasks
