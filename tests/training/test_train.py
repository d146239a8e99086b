"""The loop: runs together and alone, seeds, and what it tells on the way."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.testing import assert_allclose
from pytest import MonkeyPatch, mark, param
from torch import nn

from allotment.allocation import Allocation, FixedMatrix, GumbelMatrix, NoSharing, SharedBottom
from allotment.modules import MultiTaskNetwork
from allotment.tasks import Task
from allotment.training import Run
from tests.training.reference import plainly_trained
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    Line,
    a_network,
    a_run,
    assert_same_end,
    classes,
    lines,
    mixed,
    mixed_network,
    n_different,
    outcomes_of,
    progress_of,
    weights_of,
)

CLASSES = SETTINGS.changed(rounds=20, evaluate_every=10, clip_norm=1.0, weight_decay=0.01)


def of_lines(seed: int) -> Run:
    return a_run(seed, SETTINGS.changed(budget=0.4))


def of_classes(seed: int) -> Run:
    def build() -> MultiTaskNetwork:
        heads = [nn.Linear(4, 2), nn.Linear(4, 4)]
        return a_network(GumbelMatrix(2, 3), heads, dropout=0.4)

    return a_run(seed, CLASSES, tasks=classes(2, 4), build=build)


def of_mixed(seed: int) -> Run:
    """Returns runs of labels, numbers and counts."""
    return a_run(seed, CLASSES, tasks=mixed(), build=lambda: mixed_network(0.4))


def of_fixed_gates(seed: int) -> Run:
    """Returns runs of which every one shares in another way."""
    ways: list[Allocation] = [
        SharedBottom(2, 4),
        NoSharing(2, 4),
        SharedBottom(2, 4, reduce="mean"),
        FixedMatrix([[True, False, False, True], [False, False, False, True]]),
    ]

    def build() -> MultiTaskNetwork:
        return a_network(ways[seed % 4], [nn.Linear(4, 1), nn.Linear(4, 1)])

    return a_run(seed, build=build)


def of_budgets(seed: int) -> Run:
    """Returns runs of which every one has another budget."""
    budget, weight = [(None, 1.0), (0.2, 1.0), (0.2, 5.0), (0.9, 1.0)][seed % 4]
    return a_run(seed, SETTINGS.changed(budget=budget, budget_weight=weight))


def of_own_tasks(seed: int) -> Run:
    """Returns runs of which every one has tasks of its own."""
    tasks = [Task(name, Line(10 * seed + t)) for t, name in enumerate("ab")]
    return a_run(seed, tasks=tasks)


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(N_INPUTS, 4, bias=False), nn.BatchNorm1d(4))


def of_batch_norms(seed: int) -> Run:
    return a_run(seed, build=lambda: a_network(GumbelMatrix(2, 3), make=normed))


RUNS = [
    param(of_lines, id="learnt gates"),
    param(of_classes, id="classes"),
    param(of_mixed, id="mixed targets"),
    param(of_fixed_gates, id="ways of sharing"),
    param(of_budgets, id="budgets"),
    param(of_own_tasks, id="tasks of their own"),
]
BATCH_NORM = param(
    of_batch_norms,
    id="batch normalisation",
)


@mark.slow
@mark.usefixtures("double")
@mark.parametrize("make", [*RUNS, BATCH_NORM])
def test_a_run_among_others_ends_like_the_lone_run_with_its_seed(
    make: Callable[[int], Run], device: torch.device
) -> None:
    seeds = [3, 0, 5]
    together = outcomes_of([make(seed) for seed in seeds], device=device)
    for seed, outcome in zip(seeds, together, strict=True):
        (alone,) = outcomes_of([make(seed)], device=device)
        assert_same_end(outcome, alone)


@mark.parametrize("make", RUNS[:4])
def test_a_seed_fixes_everything(make: Callable[[int], Run]) -> None:
    torch.manual_seed(100)
    first = outcomes_of([make(1), make(2)])
    torch.manual_seed(200)
    again = outcomes_of([make(1), make(2)])
    for a, b in zip(first, again, strict=True):
        assert n_different(a.weights, b.weights) == 0
        assert a.final_loss == b.final_loss


def test_another_seed_leads_elsewhere() -> None:
    network = a_run().network
    first, second = (weights_of(Run(network, lines(), seed, SETTINGS)) for seed in (0, 1))
    assert n_different(first, second) > 5


def test_training_draws_nothing_from_torchs_own_generator() -> None:
    run = of_classes(0)
    state = torch.get_rng_state()
    weights_of(run)
    assert torch.equal(torch.get_rng_state(), state)


def with_dropout_inside() -> nn.Module:
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(N_INPUTS, 4))


@mark.parametrize(
    "build",
    [
        param(
            lambda: a_network(SharedBottom(2, 2), make=with_dropout_inside),
            id="dropout in a component",
        ),
        param(lambda: a_network(SharedBottom(2, 2), dropout=0.5), id="dropout without heads"),
        param(
            lambda: a_network(
                SharedBottom(2, 2), [nn.Sequential(nn.Linear(4, 1)) for _ in "ab"], dropout=0.5
            ),
            id="dropout before other heads",
        ),
    ],
)
def test_a_seed_fixes_the_draws_of_components_too(build: Callable[[], MultiTaskNetwork]) -> None:
    run = a_run(build=build)
    torch.manual_seed(100)
    first = weights_of(run)
    torch.manual_seed(200)
    assert n_different(first, weights_of(run)) == 0


def test_training_leaves_the_network_it_was_given() -> None:
    run = of_classes(0)
    before = {name: value.clone() for name, value in run.network.state_dict().items()}
    weights_of(run)
    assert n_different(before, run.network.state_dict()) == 0


def test_a_network_in_evaluation_mode_is_trained_all_the_same() -> None:
    run = of_classes(0)
    expected = weights_of(run)
    run.network.eval()
    assert n_different(weights_of(run), expected) == 0


def test_progress_comes_once_a_block_and_ends_with_outcomes() -> None:
    told = progress_of([a_run(seed, SETTINGS.changed(rounds=25)) for seed in (0, 1)])
    assert [progress.round for progress in told] == [10, 20, 25, 25]
    assert [progress.outcomes is None for progress in told] == [True, True, True, False]
    assert all(progress.losses.shape == (2,) for progress in told)


@mark.usefixtures("double")
def test_losses_are_means_by_task_and_interval_without_penalties() -> None:
    settings = SETTINGS.changed(rounds=25, budget=0.1, budget_weight=50.0)
    run = a_run(settings=settings)
    losses = plainly_trained(run)[1]
    told = progress_of([run], n_last_rounds=7)
    entries = [progress.entries[0] for progress in told if progress.entries is not None]
    assert [entry.round for entry in entries] == [10, 20, 25]
    for first, entry in zip((0, 20, 40), entries, strict=True):
        part = losses[first : 2 * entry.round]
        expected = [np.mean([loss for t, loss in part if t == task]) for task in range(2)]
        assert_allclose(entry.losses, expected, rtol=1e-9)
    assert_allclose(told[0].losses, [np.mean([loss for _, loss in losses[:20]])], rtol=1e-9)
    assert told[-1].outcomes is not None
    last = np.mean([loss for _, loss in losses[-14:]])
    assert_allclose(told[-1].outcomes[0].final_loss, last, rtol=1e-9)


def test_entries_hold_the_gates_at_their_time() -> None:
    told = progress_of([a_run(seed, SETTINGS.changed(rounds=20)) for seed in (0, 1)])
    assert told[1].entries is not None and told[-1].outcomes is not None
    for entry, outcome in zip(told[1].entries, told[-1].outcomes, strict=True):
        assert entry.probabilities.shape == (2, 3)
        assert_allclose(entry.probabilities, outcome.probabilities)
        assert_allclose(outcome.matrix, outcome.probabilities >= 0.5)
        assert entry.share_active == outcome.matrix.mean()


def test_an_outcome_says_how_many_trained_together() -> None:
    outcomes = outcomes_of([a_run(seed) for seed in (0, 1, 2)])
    assert [outcome.n_together for outcome in outcomes] == [3, 3, 3]
    assert all(outcome.rounds == 10 and outcome.seconds > 0 for outcome in outcomes)


def test_a_long_run_has_no_more_entries_than_a_curve_needs(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.training._tracker.N_ENTRIES", 3)
    told = progress_of([a_run(settings=SETTINGS.changed(rounds=70))])
    entries = [progress.entries[0].round for progress in told if progress.entries is not None]
    assert entries == [30, 60, 70]
