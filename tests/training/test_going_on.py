"""A network that was trained before: annealing goes on where it stands, and tasks by name."""

from copy import deepcopy
from dataclasses import replace

import torch
from numpy.testing import assert_array_equal
from pytest import mark, raises
from torch import nn

from allotment import fit, plan
from allotment.allocation import Annealing, GumbelMatrix
from allotment.modules import MultiTaskNetwork
from allotment.training import Run
from tests.engine.test_trainer import EVERYTHING, assert_trained_plainly
from tests.training.toy import (
    SETTINGS,
    a_network,
    a_run,
    assert_resumed_to_the_bit,
    classes,
    fitted,
    lines,
    n_different,
    outcomes_of,
)

COUNT = "layers.0.allocation.n_batches"


def a_classifier() -> MultiTaskNetwork:
    torch.manual_seed(0)
    heads = {f"classes {task}": nn.Linear(4, width) for task, width in enumerate((2, 4, 3))}
    return a_network(GumbelMatrix(3, 3, temperature=Annealing(start=5.0)), heads)


def test_fitting_again_goes_on_with_the_annealing() -> None:
    network = a_run().network
    fitted(network, rounds=10)
    assert network.state_dict()[COUNT] == 20
    fitted(network, rounds=15)
    assert network.state_dict()[COUNT] == 50
    fitted(network, rounds=10, schedule="joint")
    assert network.state_dict()[COUNT] == 70


@mark.slow
@mark.usefixtures("double")
@mark.filterwarnings("ignore:Task .* uses no component")  # the budget is small
@mark.parametrize("n_runs", [1, 2])
@mark.parametrize("schedule", ["alternating", "joint"])
def test_going_on_equals_a_plainly_written_loop_that_goes_on(n_runs: int, schedule: str) -> None:
    """The temperature goes on; the ramp of the entropy, the rates and the draws begin anew."""
    network = a_classifier()
    fit(network, classes(2, 4, 3), EVERYTHING)
    settings = EVERYTHING.changed(schedule=schedule)
    runs = [Run(deepcopy(network), classes(2, 4, 3), seed, settings) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert outcome.weights[COUNT] == 2 * 3 * EVERYTHING.rounds
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


def test_the_plan_says_where_annealing_begins() -> None:
    network = a_run().network
    fitted(network, rounds=10)
    line = next(line for line in str(plan([Run(network, lines())])).splitlines() if "ann" in line)
    where, reason = line.split(": ", 1)
    assert where.split() == ["annealing", "batch", "20"]
    assert reason == "the network has made that many passes in training mode, and goes on."


def test_a_training_that_goes_on_can_stop_and_resume_to_the_bit() -> None:
    network = a_classifier()
    fit(network, classes(2, 4, 3), SETTINGS)

    def runs() -> list[Run]:
        return [Run(deepcopy(network), classes(2, 4, 3), 1, SETTINGS.changed(rounds=30))]

    assert_resumed_to_the_bit(runs)


def test_networks_at_different_points_do_not_train_together() -> None:
    runs = [a_run(0), a_run(1)]
    fitted(runs[1].network, rounds=10)
    with raises(ValueError, match=r"one point of their annealing\. Found .* after 0 and 20 batch"):
        outcomes_of(runs)


def test_tasks_in_another_order_train_the_same_and_come_out_by_name() -> None:
    tasks, settings = classes(2, 4, 3), SETTINGS.changed(evaluate_every=10)
    first, second = a_classifier(), a_classifier()
    expected = fit(first, tasks, settings)
    found = fit(second, [tasks[2], tasks[0], tasks[1]], settings)
    assert n_different(first.state_dict(), second.state_dict()) == 0
    assert_array_equal(found.embeddings, expected.embeddings)
    assert found.test is not None and expected.test is not None
    assert_array_equal(found.test.losses, expected.test.losses)
    assert second.task_names == ["classes 0", "classes 1", "classes 2"]
    x, y = tasks[2].test.examples()
    share = (second(x, "classes 2").argmax(dim=1) == y).double().mean()
    assert found.test.accuracies is not None
    assert abs(found.test.accuracies[2] - float(share)) < 1e-6


def test_runs_may_name_their_tasks_in_orders_of_their_own() -> None:
    tasks = classes(2, 4, 3)
    runs = [Run(a_classifier(), order, seed, SETTINGS) for seed, order in enumerate((tasks, tasks))]
    other = [runs[0], replace(runs[1], tasks=tasks[::-1])]
    for one, two in zip(outcomes_of(runs), outcomes_of(other), strict=True):
        assert n_different(one.weights, two.weights) == 0
