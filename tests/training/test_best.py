"""Which weights are kept: those that did best on validation."""

from collections.abc import Callable
from dataclasses import replace

import torch
from numpy.testing import assert_allclose
from pytest import mark, warns
from torch import nn

from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import MultiTaskNetwork
from allotment.tasks import Task
from allotment.training import Progress, Run
from tests.training.test_evaluation import assert_equal, by_hand
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    classes,
    mixed,
    mixed_network,
    n_different,
    progress_of,
)

# A learning rate at which accuracy comes and goes.
RESTLESS = SETTINGS.changed(rounds=60, learning_rate=0.3, evaluate_every=10)


def a_classifier(seed: int, *, keep_best: bool = True) -> Run:
    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 3), nn.Linear(4, 4)])

    settings = RESTLESS.changed(keep_best=keep_best)
    return a_run(seed, settings, tasks=classes(3, 4), build=build)


def validation_scores(told: list[Progress], run: int) -> dict[int, float]:
    """Returns the mean accuracy on validation at each validation check."""
    scores = {}
    for progress in told:
        validation = progress.entries[run].validation if progress.entries else None
        if validation is not None:
            assert validation.accuracies is not None
            scores[progress.round] = float(validation.accuracies.mean())
    return scores


def test_the_best_on_validation_is_kept_and_tested_run_by_run() -> None:
    runs = [a_classifier(seed) for seed in range(3)]
    told = progress_of(runs)
    assert told[-1].outcomes is not None
    best_rounds = []
    for index, (run, outcome) in enumerate(zip(runs, told[-1].outcomes, strict=True)):
        scores = validation_scores(told, index)
        assert list(scores) == [10, 20, 30, 40, 50, 60]
        best = max(scores, key=lambda done: scores[done])  # the first of equals
        best_rounds.append(best)
        assert outcome.best_round == best
        assert outcome.validation is not None and outcome.validation.accuracies is not None
        assert_allclose(outcome.validation.accuracies.mean(), scores[best])
        assert_equal(outcome.validation, by_hand(run, outcome, "validation"))
        assert_equal(outcome.test, by_hand(run, outcome, "test"))
    assert len(set(best_rounds)) > 1 and set(best_rounds) != {60}  # else this showed nothing


def test_the_gates_are_those_of_the_weights_that_are_kept() -> None:
    run = a_classifier(0)
    outcomes = progress_of([run])[-1].outcomes
    assert outcomes is not None
    run.network.load_state_dict(outcomes[0].weights)
    assert_allclose(outcomes[0].matrix, run.network.matrix().numpy())
    probabilities = run.network.probabilities().detach().numpy()
    assert_allclose(outcomes[0].probabilities, probabilities, rtol=1e-6)


def test_without_a_choice_the_last_weights_are_kept() -> None:
    last = progress_of([a_classifier(0, keep_best=False)])
    best = progress_of([a_classifier(0)])
    assert last[-1].outcomes is not None and best[-1].outcomes is not None
    assert last[-1].outcomes[0].best_round is None
    scores = validation_scores(last, 0)
    assert scores == validation_scores(best, 0)
    validation = last[-1].outcomes[0].validation
    assert validation is not None and validation.accuracies is not None
    assert_allclose(validation.accuracies.mean(), scores[60])
    assert n_different(last[-1].outcomes[0].weights, best[-1].outcomes[0].weights) > 0


def test_without_validation_checks_the_last_weights_are_kept() -> None:
    run = a_classifier(0)
    outcomes = progress_of([replace(run, settings=RESTLESS.changed(evaluate_every=None))])[
        -1
    ].outcomes
    kept = progress_of([a_classifier(0, keep_best=False)])[-1].outcomes
    assert outcomes is not None and kept is not None
    assert outcomes[0].best_round is None
    assert n_different(outcomes[0].weights, kept[0].weights) == 0


def test_the_first_of_equals_is_kept() -> None:
    run = a_classifier(0)
    still = RESTLESS.changed(learning_rate=1e-12, allocation_learning_rate=1e-12)
    outcomes = progress_of([replace(run, settings=still)])[-1].outcomes
    assert outcomes is not None
    assert outcomes[0].best_round == 10


def test_the_end_is_checked_too() -> None:
    run = a_classifier(0)
    run = replace(run, settings=RESTLESS.changed(rounds=15))
    assert list(validation_scores(progress_of([run]), 0)) == [10, 15]


def a_regression(seed: int) -> Run:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(40, N_INPUTS, generator=generator), torch.randn(40, generator=generator)
    tasks = [Task(name, (x[:20], y[:20]), (x[20:], y[20:])) for name in "ab"]
    return a_run(seed, RESTLESS, tasks=tasks, build=lambda: a_network(SharedBottom(2, 2)))


def of_mixed(seed: int) -> Run:
    return a_run(seed, RESTLESS, tasks=mixed(), build=mixed_network)


@mark.parametrize("make", [a_regression, of_mixed])
@mark.parametrize("n_runs", [1, 2])
def test_where_not_all_classify_the_smallest_loss_is_kept(
    make: Callable[[int], Run], n_runs: int
) -> None:
    runs = [make(seed) for seed in range(n_runs)]
    told = progress_of(runs)
    assert told[-1].outcomes is not None
    for index, outcome in enumerate(told[-1].outcomes):
        looks = {p.round: p.entries[index].validation for p in told if p.entries is not None}
        losses = {done: look.losses.mean() for done, look in looks.items() if look is not None}
        assert outcome.best_round == min(losses, key=lambda done: losses[done])
        assert outcome.validation is not None
        assert_allclose(outcome.validation.losses.mean(), min(losses.values()), rtol=1e-5)


@mark.parametrize("n_runs", [1, 2])
def test_a_score_that_is_never_a_number_chooses_nothing(n_runs: int) -> None:
    tasks = [replace(task, metrics={"q": lambda y, t: float("nan")}) for task in classes(3, 4)]
    by_nan = [
        replace(a_classifier(seed), tasks=tasks, settings=RESTLESS.changed(keep_best="q"))
        for seed in range(n_runs)
    ]
    with warns(UserWarning, match=r"a number at some check\. Found NaN at all of them for q: the"):
        found = progress_of(by_nan)[-1].outcomes
    last = progress_of([a_classifier(seed, keep_best=False) for seed in range(n_runs)])[-1].outcomes
    assert found is not None and last is not None
    for own, other in zip(found, last, strict=True):
        assert own.best_round is None
        assert n_different(own.weights, other.weights) == 0


def test_patience_with_a_score_that_is_never_a_number_is_told() -> None:
    tasks = [replace(task, metrics={"q": lambda y, t: float("nan")}) for task in classes(3, 4)]
    settings = RESTLESS.changed(keep_best="q", patience=2)
    with warns(UserWarning, match=r"last weights are kept, and `patience` ended the training\."):
        told = progress_of([replace(a_classifier(0), tasks=tasks, settings=settings)])
    assert told[-1].round == 20
