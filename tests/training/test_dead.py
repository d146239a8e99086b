"""Tasks that are left with nothing are told of at once, and once."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from pytest import WarningsRecorder, mark, warns

import allotment as al
from allotment.training import DeadTasks
from tests.training.toy import SETTINGS, a_network, lines

SHUT = [[1e-4] * 3, [0.9] * 3]
LONG = SETTINGS.changed(rounds=60)


def a_run(p_init: Sequence[Sequence[float]], *, keeps_one: bool = False, seed: int = 0) -> al.Run:
    allocation = al.GumbelMatrix(2, 3, p_init=p_init, keeps_one=keeps_one)
    return al.Run(a_network(allocation), lines(), seed, LONG)


def told(found: WarningsRecorder) -> list[str]:
    return [str(each.message) for each in found if "uses no component" in str(each.message)]


def test_it_is_told_with_the_first_entry_and_once() -> None:
    with warns(UserWarning) as found:
        progress = al.train([a_run(SHUT)])
        first = next(progress)
        assert told(found)[0].startswith(
            "Task 'line 0' uses no component of modular layer 0 at round 10, which gives zeros"
        )
        assert first.dead == [{"line 0": [0]}]
        last = list(progress)[-1]
    assert len(told(found)) == 1
    assert last.outcomes and last.outcomes[0].dead == {"line 0": [0]}


def test_of_many_runs_it_is_told_once_and_each_says_which_are_its_own() -> None:
    runs = [a_run(SHUT if seed else [[0.9] * 3] * 2, seed=seed) for seed in range(3)]
    with warns(UserWarning) as found:
        first = next(al.train(runs))
    assert first.dead == [{}, {"line 0": [0]}, {"line 0": [0]}]
    assert len(told(found)) == 1


def test_fit_tells_it_once_and_says_it_in_its_result() -> None:
    run = a_run(SHUT)
    with warns(UserWarning) as found:
        result = al.fit(run.model, run.tasks, LONG)
    assert len(told(found)) == 1
    assert "! Task 'line 0' uses no component of modular layer 0, which" in str(result)


def test_a_kept_gate_leaves_no_task_with_nothing() -> None:
    run = a_run(SHUT, keeps_one=True)
    result = al.fit(run.model, run.tasks, LONG)  # a warning would be an error
    assert result.dead() == {}
    assert (result.embeddings.sum(axis=1) >= 1).all()


def test_gates_that_are_undecided_are_no_reason_to_tell() -> None:
    watch = DeadTasks(a_network(al.GumbelMatrix(2, 3)), ["a", "b"])
    matrix = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    rows = np.full((2, 3), 0.49)
    assert watch.look(rows, matrix) == {}
    rows[0] = 0.2  # shut together in 51 of 100 draws
    assert watch.look(rows, matrix) == {"a": [0]}
    assert watch.look(rows, np.ones((2, 3))) == {}


@mark.parametrize("keeps_one", [True, False])
def test_a_task_that_a_budget_shuts_out_learns_all_the_same_where_a_gate_is_kept(
    keeps_one: bool,
) -> None:
    torch.manual_seed(0)
    settings = SETTINGS.changed(
        rounds=200, budget=0.01, budget_weight=50.0, allocation_learning_rate=0.3
    )
    network = a_network(al.GumbelMatrix(2, 3, keeps_one=keeps_one))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = al.fit(network, lines(), settings)
    losses = np.mean([entry.losses for entry in result.history[-3:]])
    assert (losses < 1.0) == keeps_one, losses  # what the targets vary by is about 6
    assert bool(result.dead()) == (not keeps_one)
