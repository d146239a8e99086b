"""The loop: runs together and alone, seeds, failures, and what it tells on the way."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.testing import assert_allclose
from pytest import MonkeyPatch, mark, param, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment._progress import Outcome
from allotment._streams import stream_seed
from allotment.network import (
    Allocation,
    Annealing,
    FixedMatrix,
    GumbelMatrix,
    MultiTaskNetwork,
    NoSharing,
    SharedBottom,
)
from allotment.tasks import Task
from allotment.training import Run, TrainingSettings

from .reference import plainly_trained
from .toy import (
    N_INPUTS,
    SETTINGS,
    Line,
    a_network,
    a_run,
    classes,
    lines,
    n_different,
    outcomes_of,
    progress_of,
    weights_of,
)

CLASSES = replace(SETTINGS, rounds=20, evaluate_every=10, clip_norm=1.0, weight_decay=0.01)


def of_lines(seed: int) -> Run:
    return a_run(seed, replace(SETTINGS, budget=0.4))


def of_classes(seed: int) -> Run:
    def build() -> MultiTaskNetwork:
        heads = [nn.Linear(4, 2), nn.Linear(4, 4)]
        return a_network(GumbelMatrix(2, 3), heads, dropout=0.4)

    return a_run(seed, CLASSES, tasks=classes(2, 4), build=build)


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
    return a_run(seed, replace(SETTINGS, budget=budget, budget_weight=weight))


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
    param(of_fixed_gates, id="ways of sharing"),
    param(of_budgets, id="budgets"),
    param(of_own_tasks, id="tasks of their own"),
]
BATCH_NORM = param(
    of_batch_norms,
    id="batch normalisation",
)


def assert_same_end(a: Outcome, b: Outcome, *, atol: float = 1e-9) -> None:
    """Asserts that two runs ended alike, up to rounding."""
    for name, value in b.weights.items():
        assert_close(a.weights[name], value, rtol=0, atol=atol, msg=f"{name}: {{}}".format)
    assert_allclose(a.final_loss, b.final_loss, atol=atol)
    assert_allclose(a.probabilities, b.probabilities, atol=atol)
    assert_allclose(a.matrix, b.matrix)
    assert a.best_round == b.best_round
    assert a.failed_step == b.failed_step
    for one, other in ((a.validation, b.validation), (a.test, b.test)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert_allclose(one.losses, other.losses, atol=atol)


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


@mark.parametrize("make", RUNS[:3])
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
    settings = replace(SETTINGS, rounds=20, clip_norm=1.0)
    runs = [a_run(0, settings), poisoned_run(1, round, value, settings), a_run(2, settings)]
    first, failed, last = outcomes_of(runs)
    assert failed.status == "failed"
    assert failed.failed_step is not None and failed.failed_step // 2 == round
    assert not np.isfinite(failed.final_loss)
    for seed, outcome in ((0, first), (2, last)):
        assert outcome.status == "finished" and outcome.failed_step is None
        assert_same_end(outcome, outcomes_of([a_run(seed, settings)])[0])


def test_a_failure_is_told_in_the_block_where_it_happens() -> None:
    settings = replace(SETTINGS, rounds=30)
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


def test_progress_comes_once_a_block_and_ends_with_outcomes() -> None:
    told = progress_of([a_run(seed, replace(SETTINGS, rounds=25)) for seed in (0, 1)])
    assert [progress.round for progress in told] == [10, 20, 25, 25]
    assert [progress.outcomes is None for progress in told] == [True, True, True, False]
    assert all(progress.losses.shape == (2,) for progress in told)


@mark.usefixtures("double")
def test_losses_are_means_by_task_and_stretch_without_penalties() -> None:
    settings = replace(SETTINGS, rounds=25, budget=0.1, budget_weight=50.0)
    run = a_run(settings=settings)
    losses = plainly_trained(run)[1]
    told = progress_of([run], n_last_rounds=7)
    points = [progress.points[0] for progress in told if progress.points is not None]
    assert [point.round for point in points] == [10, 20, 25]
    for first, point in zip((0, 20, 40), points, strict=True):
        part = losses[first : 2 * point.round]
        expected = [np.mean([loss for t, loss in part if t == task]) for task in range(2)]
        assert_allclose(point.losses, expected, rtol=1e-9)
    assert_allclose(told[0].losses, [np.mean([loss for _, loss in losses[:20]])], rtol=1e-9)
    assert told[-1].outcomes is not None
    last = np.mean([loss for _, loss in losses[-14:]])
    assert_allclose(told[-1].outcomes[0].final_loss, last, rtol=1e-9)


def test_points_hold_the_gates_at_their_time() -> None:
    told = progress_of([a_run(seed, replace(SETTINGS, rounds=20)) for seed in (0, 1)])
    assert told[1].points is not None and told[-1].outcomes is not None
    for point, outcome in zip(told[1].points, told[-1].outcomes, strict=True):
        assert point.probabilities.shape == (2, 3)
        assert_allclose(point.probabilities, outcome.probabilities)
        assert_allclose(outcome.matrix, outcome.probabilities >= 0.5)
        assert point.share_active == outcome.matrix.mean()


def test_an_outcome_says_how_many_trained_together() -> None:
    outcomes = outcomes_of([a_run(seed) for seed in (0, 1, 2)])
    assert [outcome.n_together for outcome in outcomes] == [3, 3, 3]
    assert all(outcome.rounds == 10 and outcome.seconds > 0 for outcome in outcomes)


def test_a_long_run_has_no_more_points_than_a_curve_needs(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.training._loop.N_POINTS", 3)
    told = progress_of([a_run(settings=replace(SETTINGS, rounds=70))])
    points = [progress.points[0].round for progress in told if progress.points is not None]
    assert points == [30, 60, 70]


def of_temperature(seed: int, start: float) -> Run:
    allocation = GumbelMatrix(2, 3, temperature=Annealing(start=start))
    return a_run(seed, build=lambda: a_network(allocation))


ALIKE = r"equal settings, but for `budget` and `budget_weight`\. Found 2 different ones\."


@mark.parametrize(
    ("runs", "message"),
    [
        param(list, r"`runs` should hold at least one run\. Found none\.", id="none"),
        param(
            lambda: [a_run(0), a_run(1, replace(SETTINGS, learning_rate=0.02))],
            ALIKE,
            id="learning rates",
        ),
        param(lambda: [a_run(0), a_run(1, replace(SETTINGS, rounds=20))], ALIKE, id="rounds"),
        param(
            lambda: [a_run(0), a_run(1, build=lambda: a_network(GumbelMatrix(2, 4)))],
            r"differ in the values of their parameters and fixed allocations alone\. Found diff",
            id="numbers of components",
        ),
        param(
            lambda: [a_run(0), a_run(1, build=lambda: a_network(SharedBottom(2, 3)))],
            r"differ in the values of their parameters and fixed allocations alone\. Found diff",
            id="learnt and fixed gates",
        ),
        param(
            lambda: [of_temperature(0, 50.0), of_temperature(1, 5.0)],
            r"differ in the values of their parameters and fixed allocations alone\. Found diff",
            id="temperatures",
        ),
    ],
)
def test_runs_that_cannot_go_together_are_refused(
    runs: Callable[[], Sequence[Run]], message: str
) -> None:
    with raises(ValueError, match=message):
        progress_of(runs())


ONE_SHAPE = (
    r"should have training examples of one shape and type, all arrays or all fresh samples\. Found"
)


def arrays(*shape: int, n: int = 8, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return torch.zeros(n, *shape, dtype=dtype), torch.zeros(n)


class Narrow(Line):
    """Fresh samples with one number less."""

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, y = super().draw(n, generator)
        return x[:, 1:], y


@mark.parametrize(
    ("first", "second"),
    [
        param(arrays(N_INPUTS), arrays(N_INPUTS - 1), id="shapes"),
        param(arrays(N_INPUTS), arrays(N_INPUTS, dtype=torch.uint8), id="types"),
        param(arrays(N_INPUTS), (torch.zeros(8, N_INPUTS), torch.zeros(8, 2)), id="targets"),
        param(
            arrays(N_INPUTS),
            (torch.zeros(8, N_INPUTS), torch.zeros(8, dtype=torch.int64)),
            id="numbers and labels",
        ),
        param(arrays(N_INPUTS), Line(0), id="arrays and fresh samples"),
        param(
            Line(0),
            Narrow(1),
            id="fresh samples of different shapes",
        ),
    ],
)
def test_tasks_of_different_shapes_are_refused(first: object, second: object) -> None:
    with raises(ValueError, match=ONE_SHAPE):
        progress_of([a_run(tasks=[Task("a", first), Task("b", second)])])


def test_tasks_may_have_different_numbers_of_examples() -> None:
    tasks = [Task("a", arrays(N_INPUTS, n=5)), Task("b", arrays(N_INPUTS, n=50))]
    (outcome,) = outcomes_of([a_run(tasks=tasks)])
    assert outcome.status == "finished"
