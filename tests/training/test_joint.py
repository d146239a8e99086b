"""The joint schedule: one step a round, on the mean over tasks of what each is charged."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.testing import assert_allclose
from pytest import mark, param
from torch import Tensor, nn
from torch.testing import assert_close

from allotment._engine._optimizer import AdamSteps
from allotment._engine._trainer import Trainer
from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork
from allotment.training import Run
from tests.engine.test_trainer import (
    RUNS,
    assert_trained_plainly,
    nightly,
    of_classes,
    of_other_heads,
    of_pictures,
)
from tests.training.reference import plainly_trained, steps_of
from tests.training.toy import N_INPUTS, a_network, a_run, outcomes_of, progress_of, weights_of


def jointly(run: Run, *, rounds: int | None = None) -> Run:
    settings = run.settings.changed(schedule="joint", rounds=rounds or run.settings.rounds)
    return replace(run, settings=settings)


@mark.usefixtures("double")
@mark.parametrize("make", [RUNS[0], *nightly(RUNS[1:7]), RUNS[7]])
def test_joint_training_equals_a_plainly_written_loop(
    make: Callable[[], Run], device: torch.device
) -> None:
    run = jointly(make())
    assert_trained_plainly(run, weights_of(run, device=device), atol=1e-9)


@mark.usefixtures("double")
@mark.parametrize("make", RUNS[:7])
def test_runs_that_train_jointly_and_together_equal_plainly_written_loops(
    make: Callable[[], Run], device: torch.device
) -> None:
    runs = [jointly(make()), replace(jointly(make()), seed=5)]
    for run, outcome in zip(runs, outcomes_of(runs, device=device), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


@mark.usefixtures("double")
def test_one_joint_step_follows_the_mean_of_the_gradients_of_all_tasks() -> None:
    run = jointly(of_classes(), rounds=1)
    run = replace(run, settings=run.settings.changed(clip_norm=None, budget=None, weight_decay=0))
    run = replace(run, settings=run.settings.changed(connection_weight=0, disconnect_weight=0))
    network = run.network.train()
    weight = network.get_parameter("stem.weight")
    start = weight.detach().clone()
    batches = list(steps_of(run))
    assert sorted(batch.task for batch in batches) == [0, 1, 2]
    gradients = []
    for task, x, y, noise in batches:
        loss = run.tasks[task].loss_function(network(x, task, noise=noise), y)
        gradients.append(torch.autograd.grad(loss, weight)[0])
    gradient = torch.stack(gradients).mean(dim=0)
    # Adam's first step, by hand: both moments are the gradient itself once their bias is out.
    expected = start - run.settings.optimization.learning_rate * gradient / (gradient.abs() + 1e-8)
    assert_close(weights_of(run)["stem.weight"], expected, rtol=0, atol=1e-12)


@mark.usefixtures("double")
@mark.parametrize("make", [of_classes, param(of_pictures, marks=mark.slow), of_other_heads])
def test_losses_come_back_for_each_task(make: Callable[[], Run]) -> None:
    run = jointly(make(), rounds=10)
    n_tasks = len(run.tasks)
    losses, tasks = Trainer([run], torch.device("cpu")).steps(0, 10 * n_tasks)
    expected = plainly_trained(run)[1]  # round after round, as the tasks were drawn
    assert tasks[:, 0].tolist() == [task for task, _ in expected]
    assert_allclose(losses[:, 0].numpy(), [loss for _, loss in expected], rtol=0, atol=1e-9)
    (entry,) = progress_of([run])[0].entries or []
    means = [np.mean([loss for t, loss in expected if t == task]) for task in range(n_tasks)]
    assert_allclose(entry.losses, means, rtol=0, atol=1e-9)  # in the order of the tasks


@mark.slow
@mark.parametrize("rounds", [1, 9, 11])
def test_the_counter_counts_batches_and_the_optimizer_steps(rounds: int) -> None:
    run = jointly(of_classes(), rounds=rounds)
    assert weights_of(run)["layers.0.allocation.n_batches"] == 3 * rounds
    trainer = Trainer([jointly(run, rounds=10)], torch.device("cpu"))
    trainer.steps(0, 30)
    steps = trainer._steps
    assert isinstance(steps, AdamSteps)
    assert {float(state["step"]) for state in steps._adam.state.values()} == {10.0}


@mark.usefixtures("double")
def test_a_round_begins_with_the_same_batch_under_both_schedules() -> None:
    runs = [jointly(of_classes()), of_classes()]
    results = [Trainer([run], torch.device("cpu")).steps(0, 3) for run in runs]
    (joint, joint_tasks), (alternating, tasks) = results
    assert torch.equal(joint_tasks, tasks)
    assert_close(joint[0], alternating[0])  # on the same weights; later ones have moved on
    assert not torch.allclose(joint[1:], alternating[1:])


class Shifting(nn.Module):
    """A component with a constant among its buffers."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(N_INPUTS, 4)
        self.register_buffer("shift", torch.arange(N_INPUTS) / N_INPUTS)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x + self.shift)
        return y


@mark.usefixtures("double")
@mark.parametrize("n_runs", [1, 2])
def test_components_may_have_constants(n_runs: int) -> None:
    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 3), make=Shifting)

    runs = [jointly(a_run(seed, build=build)) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        for name, value in plainly_trained(run)[0].named_parameters():
            assert_close(outcome.weights[name], value.detach(), rtol=0, atol=1e-9)
