"""Losses of tasks weighed against each other: by a task's own weight, or by a loss balancing."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from numpy.testing import assert_allclose
from pytest import mark, param, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment._engine import Trainer
from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork, TaskNetwork
from allotment.settings import (
    DynamicWeightAverage,
    LossBalancing,
    TrainingSettings,
    UncertaintyWeighting,
)
from allotment.training import Run, TrainingState, fit, train
from tests.engine.test_trainer import assert_trained_plainly
from tests.training.reference import an_optimizer, loss_of, plainly_trained, steps_of
from tests.training.toy import (
    SETTINGS,
    a_network,
    a_run,
    classes,
    lines,
    n_different,
    outcomes_of,
    planned_outcomes_of,
    progress_of,
)

CPU = torch.device("cpu")


class Noting(LossBalancing):
    """Weighs losses by a table, and remembers what it was given."""

    def __init__(self, *table: float) -> None:
        self.table = torch.tensor(table)
        self.seen: list[tuple[Tensor, Tensor]] = []

    def weights(self, losses: Tensor, tasks: Tensor) -> Tensor:
        self.seen.append((losses.clone(), tasks.clone()))
        return self.table[tasks]


class Relative(LossBalancing):
    """Divides a loss by a running mean of its task's losses."""

    means: Tensor  # [R, T]

    def start(self, n_runs: int, n_tasks: int, device: torch.device) -> None:
        self.means = torch.ones(n_runs, n_tasks, device=device)

    def weights(self, losses: Tensor, tasks: Tensor) -> Tensor:
        moved = 0.9 * self.means.gather(1, tasks) + 0.1 * losses
        self.means.scatter_(1, tasks, moved)
        return 1 / moved

    def state(self) -> dict[str, Tensor]:
        return {"means": self.means}


class Projecting(LossBalancing):
    """Takes out of each task's gradient what goes against those of the others (PCGrad)."""

    needs_gradients = True

    def combine(self, gradients: Tensor) -> Tensor:
        return projected(gradients)


def projected(gradients: Tensor) -> Tensor:
    found = []
    for own in gradients:
        left = own
        for other in gradients:
            share = (left @ other / other.square().sum().clamp_min(1e-30)).clamp_max(0.0)
            left = left - share * other
        found.append(left)
    return torch.stack(found).mean(dim=0)


def of_lines(seed: int = 0, **changes: Any) -> Run:
    return a_run(seed, SETTINGS.changed(**changes))


def of_classes(seed: int = 0, **changes: Any) -> Run:
    def build() -> MultiTaskNetwork:
        heads = [nn.Linear(4, width) for width in (2, 4, 3)]
        return a_network(GumbelMatrix(3, 3), heads)

    settings = SETTINGS.changed(**{"budget": 0.3, "clip_norm": 0.5} | changes)
    return a_run(seed, settings, tasks=classes(2, 4, 3), build=build)


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("n_runs", [param(1, marks=mark.slow), 2])
def test_the_weight_of_a_task_scales_its_gradients(schedule: str, n_runs: int) -> None:
    runs = []
    for seed in range(n_runs):
        run = of_classes(seed, schedule=schedule)
        weights = (0.5 + seed, 1.0, 3.0)
        tasks = [replace(task, weight=w) for task, w in zip(run.tasks, weights, strict=True)]
        runs.append(replace(run, tasks=tasks))
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


@mark.parametrize("schedule", ["alternating", "joint"])
def test_the_weight_of_a_task_does_not_scale_the_losses_that_are_told(schedule: str) -> None:
    run = of_lines(schedule=schedule)
    heavy = replace(run, tasks=[replace(task, weight=100.0) for task in run.tasks])
    plain, weighed = (Trainer([each], CPU).steps(0, 2)[0] for each in (run, heavy))
    # The first loss is before any step.
    assert_close(weighed[0], plain[0], rtol=0, atol=0)
    told = progress_of([heavy])
    expected = [loss for _, loss in plainly_trained(heavy)[1]]
    assert_allclose(told[0].losses[0], sum(expected) / len(expected), rtol=1e-4)


def test_a_weight_of_one_and_no_weight_are_the_same_to_the_bit() -> None:
    assert Trainer([of_lines()], CPU)._gradient_pass._weights is None
    for weight in (0.0, -1.0):
        with raises(ValueError, match=r"`weight` should be above 0"):
            replace(lines()[0], weight=weight)


@mark.parametrize(("schedule", "n_tasks"), [("alternating", 1), ("joint", 3)])
@mark.parametrize("n_runs", [1, 2])
def test_a_balancing_sees_the_losses_of_a_step_with_their_tasks(
    schedule: str, n_tasks: int, n_runs: int
) -> None:
    balancing = Noting(1.0, 1.0, 1.0)
    changes = {"schedule": schedule, "trace": False, "loss_balancing": balancing}
    trainer = Trainer([of_classes(seed, **changes) for seed in range(n_runs)], CPU)
    balancing.seen.clear()
    losses, tasks = trainer.steps(0, 12)
    assert len(balancing.seen) == 12 // n_tasks
    seen = [torch.cat([part[i].T for part in balancing.seen]) for i in (0, 1)]
    assert balancing.seen[0][0].shape == (n_runs, n_tasks)
    assert torch.equal(seen[0], losses) and torch.equal(seen[1], tasks)


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", "joint"])
def test_weights_of_a_balancing_scale_gradients_like_those_of_tasks(schedule: str) -> None:
    balanced = of_classes(schedule=schedule, loss_balancing=Noting(0.5, 1.0, 3.0))
    run = of_classes(schedule=schedule)
    weights = zip(run.tasks, (0.5, 1.0, 3.0), strict=True)
    weighed = replace(run, tasks=[replace(task, weight=weight) for task, weight in weights])
    ends = [outcomes_of([each])[0] for each in (balanced, weighed)]
    for name, value in ends[0].weights.items():
        assert_close(value, ends[1].weights[name], rtol=0, atol=1e-12)
    assert_allclose(ends[0].final_loss, ends[1].final_loss)


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", "joint"])
def test_a_balancing_that_remembers_begins_anew_with_each_training(schedule: str) -> None:
    """Trying and recording a step leave no trace in what it remembers."""
    balancing = Relative()
    changes = {"schedule": schedule, "loss_balancing": balancing, "rounds": 20}
    runs = [of_classes(seed, **changes) for seed in range(2)]
    assert Trainer(runs, CPU).plan.step.value == "traced"
    assert torch.equal(balancing.means, torch.ones(2, 3))
    traced = outcomes_of(runs)
    means = balancing.means.clone()
    eager = outcomes_of([of_classes(seed, **changes, trace=False) for seed in range(2)])
    assert_close(balancing.means, means, rtol=0, atol=1e-9)
    alone = outcomes_of(runs[1:])[0]
    for one, other in zip([*traced, alone], [*eager, eager[1]], strict=True):
        for name, value in other.weights.items():
            assert_close(one.weights[name], value, rtol=0, atol=1e-9)


@mark.parametrize("balancing", [UncertaintyWeighting(0.1), DynamicWeightAverage(n_batches=3)])
@mark.parametrize("schedule", ["alternating", "joint"])
def test_balancings_of_ours_are_recorded_and_change_what_is_learnt(
    schedule: str, balancing: LossBalancing
) -> None:
    changes = {"schedule": schedule, "rounds": 20}
    balanced = [of_classes(seed, **changes, loss_balancing=balancing) for seed in range(2)]
    made, traced = planned_outcomes_of(balanced)
    assert made.step.value == "traced"
    eager = outcomes_of(
        [of_classes(s, **changes, loss_balancing=balancing, trace=False) for s in range(2)]
    )
    plain = outcomes_of([of_classes(seed, **changes, trace=False) for seed in range(2)])
    for one, other, without in zip(traced, eager, plain, strict=True):
        for name, value in other.weights.items():
            assert_close(one.weights[name], value, rtol=0, atol=1e-5)
        assert n_different(other.weights, without.weights)


def plainly_combined(run: Run, combine: Callable[[Tensor], Tensor]) -> TaskNetwork:
    """Trains a copy of a run's network by joint steps along combined gradients."""
    network = deepcopy(run.network).train()
    optimizer = an_optimizer(network, run.settings)
    parameters = list(network.parameters())
    for batches in zip(*[steps_of(run)] * len(run.tasks), strict=True):
        by_task = []
        for batch in batches:
            loss, _ = loss_of(network, run, batch)
            found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
            by_task.append(torch.cat([gradient.flatten() for gradient in found]))
        chosen = combine(torch.stack(by_task)).split([p.numel() for p in parameters])
        for parameter, gradient in zip(parameters, chosen, strict=True):
            parameter.grad = gradient.view_as(parameter)
        optimizer.step()
        for layer in network.modular_layers:
            for _ in run.tasks:
                layer.allocation.advance()
    return network


@mark.usefixtures("double")
@mark.parametrize("n_runs", [1, 2])
def test_combined_gradients_are_those_of_a_plainly_written_projection(n_runs: int) -> None:
    # Plain steps: Adam would make a whole step of what is left of a zero by rounding.
    settings = of_classes(
        schedule="joint",
        budget=None,
        clip_norm=None,
        rounds=20,
        learning_rate=0.3,
        optimizer=torch.optim.SGD,
        loss_balancing=Projecting(),
    ).settings
    runs = [replace(of_classes(seed), settings=settings) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        network = plainly_combined(run, projected)
        mean = plainly_combined(run, lambda gradients: gradients.mean(dim=0))
        for name, value in network.named_parameters():
            assert_close(outcome.weights[name], value.detach(), rtol=0, atol=1e-9)
        assert any(
            not torch.allclose(value, dict(mean.named_parameters())[name], atol=1e-6)
            for name, value in network.named_parameters()
        )  # else nothing went against anything, and this showed nothing


def test_gradients_of_all_tasks_need_a_joint_step() -> None:
    rule = r'`schedule` should be "joint" for .* gradients of all tasks\. Found .*alternating'
    with raises(ValueError, match=rule):
        TrainingSettings(loss_balancing=Projecting())


def state_of(runs: list[Run]) -> TrainingState:
    progress = next(train(runs))
    assert progress.state is not None
    return progress.state()


@mark.parametrize("schedule", ["alternating", "joint"])
def test_what_a_balancing_remembers_is_in_a_state(schedule: str) -> None:
    def runs() -> list[Run]:
        balancing = Relative()
        changes = {"schedule": schedule, "loss_balancing": balancing, "rounds": 30}
        return [of_classes(seed, **changes) for seed in range(1)]

    state = state_of(runs())
    assert state.tensors["balancing/means"].shape == (1, 3)
    resumed = list(train(runs(), resume_from=state))[-1].outcomes
    assert resumed is not None
    assert n_different(outcomes_of(runs())[0].weights, resumed[0].weights) == 0
    del state.tensors["balancing/means"]
    with raises(ValueError, match=r"with `balancing/means` of shape \[1, 3\]\. Found none"):
        next(train(runs(), resume_from=state))


def test_a_balancing_is_one_of_ours() -> None:
    with raises(TypeError, match=r"`loss_balancing` should be LossBalancing or None\. Found a st"):
        TrainingSettings(loss_balancing="uncertainty")  # type: ignore[arg-type]


class Replacing(LossBalancing):
    """Remembers in a new tensor at each step, which a recorded step would not see."""

    def start(self, n_runs: int, n_tasks: int, device: torch.device) -> None:
        self.mean = torch.ones(n_runs, n_tasks, device=device)

    def weights(self, losses: Tensor, tasks: Tensor) -> Tensor:
        self.mean = 0.5 * self.mean + 0.5
        return torch.ones_like(losses)

    def state(self) -> dict[str, Tensor]:
        return {"mean": self.mean}


class Flat(LossBalancing):
    def weights(self, losses: Tensor, tasks: Tensor) -> Tensor:
        return torch.ones(7)


@mark.parametrize(
    ("balancing", "message"),
    [
        (Replacing(), "Found `mean` replaced"),
        (Flat(), r"shape of the losses, \[1, 1\]. Found \[7\]"),
    ],
)
@mark.parametrize("trace", [True, False])
def test_a_balancing_that_breaks_its_promises_is_refused(
    balancing: LossBalancing, message: str, trace: bool
) -> None:
    run = a_run()
    settings = run.settings.changed(loss_balancing=balancing, trace=trace)
    with raises(ValueError, match=message):
        fit(run.model, run.tasks, settings)
