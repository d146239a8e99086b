"""Learning rates over time: a cosine, or any of torch's schedulers that follow the step alone."""

from collections.abc import Callable
from math import cos, pi
from typing import Any

import torch
from pytest import approx, mark, param, raises
from torch.optim import lr_scheduler

from allotment._engine import Trainer
from allotment._engine._lr_schedule import LRSchedule
from allotment.settings import Optimization
from allotment.training import Run, train
from tests.engine.test_optimizer import momentum, of_classes, of_lines, state_of
from tests.engine.test_trainer import assert_trained_plainly
from tests.training.toy import SETTINGS, a_run, n_different, outcomes_of

CPU = torch.device("cpu")
N_STEPS = 40  # of 20 rounds of two tasks


def an_optimizer() -> torch.optim.Optimizer:
    parameters = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    groups = [{"params": [parameters[0]], "lr": 0.1}, {"params": [parameters[1]], "lr": 0.02}]
    return torch.optim.SGD(groups, momentum=0.9)


@mark.parametrize("batch", [0, 1, 30, 99])
def test_rates_follow_half_a_cosine(batch: int) -> None:
    schedule = LRSchedule(Optimization(lr_schedule="cosine"), an_optimizer(), (100, 1), CPU)
    share = 0.5 * (1 + cos(pi * batch / 100))
    rates = [0.1 * share, 0.02 * share]
    assert schedule.rates(torch.tensor(batch)).tolist() == approx(rates, abs=1e-8)
    options = schedule.options(torch.tensor(batch))
    assert [own["lr"] for own in options] == approx(rates, abs=1e-8)


def falling(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    return lr_scheduler.StepLR(optimizer, 7, gamma=0.5)


def one_cycle(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    """A scheduler whose rates are given outright, whatever those of the optimizer."""
    return lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=N_STEPS, cycle_momentum=False)


def one_cycle_of_momentum(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    return lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=N_STEPS)


def warming_up(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    first = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    then = lr_scheduler.CosineAnnealingLR(optimizer, N_STEPS - 5, eta_min=0.001)
    return lr_scheduler.SequentialLR(optimizer, [first, then], milestones=[5])


def by_group(optimizer: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    return lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))


SCHEDULES = [
    param(falling, id="StepLR"),
    param(one_cycle, id="OneCycleLR"),
    param(warming_up, id="SequentialLR"),
    param(by_group, id="LambdaLR"),
]


@mark.parametrize("make", SCHEDULES)
@mark.parametrize("tasks_per_step", [1, 3])
def test_rates_are_those_of_the_scheduler(make: Callable[..., Any], tasks_per_step: int) -> None:
    optimizer = an_optimizer()
    length = (N_STEPS * tasks_per_step, tasks_per_step)
    schedule = LRSchedule(Optimization(lr_schedule=make), an_optimizer(), length, CPU)
    scheduler = make(optimizer)
    for step in range(N_STEPS):
        expected = [group["lr"] for group in optimizer.param_groups]
        batch = torch.tensor(step * tasks_per_step)
        assert schedule.rates(batch).tolist() == approx(expected, rel=1e-6)
        optimizer.step()
        scheduler.step()


@mark.usefixtures("double")
@mark.parametrize("make", SCHEDULES)
@mark.parametrize("optimizer", [None, momentum], ids=["Adam", "SGD with momentum"])
def test_training_equals_a_plainly_written_loop_with_the_scheduler(
    make: Callable[..., Any], optimizer: Any
) -> None:
    runs = [of_classes(seed, lr_schedule=make, optimizer=optimizer) for seed in range(2)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


@mark.usefixtures("double")
def test_a_scheduler_may_change_the_momentum_of_an_optimizer_of_ones_own() -> None:
    run = of_classes(0, lr_schedule=one_cycle_of_momentum, optimizer=momentum)
    assert_trained_plainly(run, outcomes_of([run])[0].weights, atol=1e-9)


@mark.usefixtures("double")
def test_a_joint_step_is_one_step_of_the_scheduler() -> None:
    run = of_classes(0, lr_schedule=falling, schedule="joint")
    assert_trained_plainly(run, outcomes_of([run])[0].weights, atol=1e-9)


def plateau(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.ReduceLROnPlateau(optimizer)


@mark.parametrize("optimizer", [None, momentum])
@mark.parametrize(
    ("make", "message"),
    [
        (plateau, r"^`lr_schedule` should follow the step alone\. Found ReduceLROnPlateau, .*metr"),
        (lambda optimizer: None, r"^`lr_schedule` should return a scheduler of torch's\. Found No"),
    ],
)
def test_what_does_not_follow_the_step_alone_is_refused(
    make: Any, message: str, optimizer: Any
) -> None:
    with raises(ValueError, match=message):
        outcomes_of([of_lines(0, lr_schedule=make, optimizer=optimizer)])


def test_adam_keeps_its_momentum_under_a_scheduler() -> None:
    rule = r"^`lr_schedule` should change learning rates alone, .*`cycle_momentum=False` leaves"
    with raises(ValueError, match=rule):
        outcomes_of([of_lines(0, lr_schedule=one_cycle_of_momentum)])


@mark.slow
@mark.parametrize(
    ("make", "optimizer"),
    [(warming_up, None), (one_cycle_of_momentum, momentum), ("cosine", momentum)],
)
def test_going_on_from_a_state_ends_the_same_to_the_bit(make: Any, optimizer: Any) -> None:
    def runs() -> list[Run]:
        return [of_classes(0, lr_schedule=make, optimizer=optimizer)]

    resumed = list(train(runs(), resume_from=state_of(runs())))[-1].outcomes
    assert resumed is not None
    assert n_different(outcomes_of(runs())[0].weights, resumed[0].weights) == 0


@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("optimizer", [None, torch.optim.Adam])
def test_training_stands_nearly_still_at_the_end_of_a_cosine(schedule: str, optimizer: Any) -> None:
    changes = {"rounds": 40, "lr_schedule": "cosine", "schedule": schedule, "optimizer": optimizer}
    trainer = Trainer([a_run(settings=SETTINGS.changed(**changes))], CPU)
    moved = []
    for block in range(4):
        before = trainer.parameters.snapshot()["weights"]
        trainer.steps(block, 20)
        moved.append(float((trainer.parameters.snapshot()["weights"] - before).abs().mean()))
    # Adam moves each weight by about the rate; over the last quarter that is 5 % of the full one.
    assert moved[3] < 0.15 * moved[0]


def test_an_unknown_schedule_is_refused() -> None:
    with raises(ValueError, match="`lr_schedule` should be one of 'constant', 'cosine'"):
        Optimization(lr_schedule="steps")
