"""A shared bottom and separate networks beside a network that learns its gates."""

import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose
from pytest import MonkeyPatch, mark, raises, warns
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from allotment.allocation import Allocation, CrossStitch, GumbelMatrix, NoSharing, SharedBottom
from allotment.modules import ColumnLayer, ModularLayer, MultiTaskNetwork, extract
from allotment.settings import TrainingSettings
from allotment.tasks import Task
from allotment.training import FitResult, Progress, Run, _baselines, evaluate, fit, train
from allotment.training._baselines import runs_beside
from tests.training.toy import N_INPUTS, SETTINGS, Line, classes, lines, n_different

N_EXAMPLES = 30


def network_with(
    allocation: Allocation, n_components: int = 0, stem: nn.Module | None = None
) -> MultiTaskNetwork:
    torch.manual_seed(3)
    n = n_components or allocation.n_components
    layer = ModularLayer([nn.Linear(N_INPUTS, 1) for _ in range(n)], allocation)
    return MultiTaskNetwork(stem, [layer])


def arrays(seed: int, n: int = N_EXAMPLES) -> tuple[torch.Tensor, torch.Tensor]:
    return Line(seed).draw(n, torch.Generator().manual_seed(seed + 10))


def regressions(n_tasks: int = 2) -> list[Task]:
    return [Task(f"line {t}", arrays(t), validation=arrays(t + 50)) for t in range(n_tasks)]


def fitted(
    tasks: list[Task] | None = None, settings: TrainingSettings = SETTINGS, **options: Any
) -> FitResult:
    network = network_with(GumbelMatrix(2, 4))
    return fit(network, tasks or regressions(), settings, **{"baselines": 2, **options})


def losses_of(result: FitResult, way: str) -> np.ndarray:
    assert result.baselines is not None
    return np.array([o.validation.losses for o in result.baselines.outcomes[way] if o.validation])


def test_the_network_itself_is_trained_as_without() -> None:
    networks = [network_with(GumbelMatrix(2, 4)) for _ in range(2)]
    with_baselines = fit(networks[0], regressions(), SETTINGS, seed=4, baselines=2)
    alone = fit(networks[1], regressions(), SETTINGS, seed=4)
    assert n_different(networks[0].state_dict(), networks[1].state_dict()) == 0
    assert alone.baselines is None and with_baselines.baselines is not None
    first = with_baselines.baselines.outcomes["learnt gates"][0]
    assert with_baselines.validation is first.validation
    assert {way: len(own) for way, own in with_baselines.baselines.outcomes.items()} == {
        "learnt gates": 2,
        "shared bottom": 2,
        "separate networks": 2,
    }


@mark.parametrize(
    ("way", "allocation"),
    [
        ("learnt gates", lambda: GumbelMatrix(2, 4)),
        ("shared bottom", lambda: SharedBottom(2, 4, reduce="mean")),
        ("separate networks", lambda: NoSharing(2, 4)),
    ],
)
def test_each_way_is_what_one_would_train_by_hand(
    way: str, allocation: Callable[[], Allocation]
) -> None:
    result = fitted(seed=4)
    runs = [Run(network_with(allocation()), regressions(), seed, SETTINGS) for seed in (4, 5)]
    *_, last = train(runs)
    assert last.outcomes is not None
    expected = [outcome.validation.losses for outcome in last.outcomes if outcome.validation]
    assert_allclose(losses_of(result, way), expected, rtol=1e-4)


@mark.parametrize(
    ("n_components", "expected"),
    [
        (2, [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),  # copies, where there are too few
        (3, [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        (5, [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]),
    ],
)
def test_separate_networks_have_components_of_their_own(
    n_components: int, expected: list[list[int]]
) -> None:
    network = network_with(GumbelMatrix(3, n_components))
    runs = runs_beside(Run(network, regressions(3), 0, SETTINGS), 2)
    separate = runs["separate networks"][0].network
    assert_allclose(separate.matrix().numpy(), expected)
    assert len({id(component) for component in separate.modular_layers[0].components}) == max(
        3, n_components
    )
    assert network.layer_sizes == (n_components,)  # the network itself stays as it is


def test_few_components_train_too() -> None:
    result = fit(network_with(GumbelMatrix(3, 2)), regressions(3), SETTINGS, baselines=2)
    assert losses_of(result, "separate networks").shape == (2, 3)


def test_fixed_ways_are_one_program(monkeypatch: MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(runs: list[Run], **options: Any) -> Any:
        sizes.append(len(runs))
        return train(runs, **options)

    monkeypatch.setattr(_baselines, "train", counted)
    fitted(baselines=3)
    assert sizes == [2, 6]  # the first learnt run is the fit itself


def test_examples_are_held_out_where_there_is_no_validation_split() -> None:
    x, y = arrays(0)
    tasks = [Task(name, (x, own)) for name, own in (("a", y), ("b", -y))]
    runs = runs_beside(Run(network_with(GumbelMatrix(2, 4)), tasks, 0, SETTINGS), 2)
    parts = []
    for task in runs["shared bottom"][0].tasks:
        train_rows, held_out = (set(part.rows.tolist()) for part in (task.train, task.validation))
        assert train_rows | held_out == set(range(N_EXAMPLES)) and not train_rows & held_out
        parts.append(held_out)
    assert parts[0] == parts[1] and len(parts[0]) == N_EXAMPLES // 5  # an example is in one part
    result = fitted(tasks)
    assert result.baselines is not None and not result.baselines.has_own_splits
    assert losses_of(result, "learnt gates").shape == (2, 2)
    assert result.validation is None  # the network itself learnt from all


def test_generated_examples_are_drawn_to_compare_by() -> None:
    assert losses_of(fitted(lines()), "separate networks").shape == (2, 2)


def test_weights_of_fixed_ways_learn_from_all_examples() -> None:
    settings = SETTINGS.changed(allocation_held_out=0.2)
    runs = runs_beside(Run(network_with(GumbelMatrix(2, 4)), regressions(), 0, settings), 2)
    shares = {way: own[0].settings.optimization.allocation_held_out for way, own in runs.items()}
    assert shares == {"learnt gates": 0.2, "shared bottom": 0.0, "separate networks": 0.0}


def test_what_is_shared_in_all_three_is_said() -> None:
    for stem, expected in ((None, False), (nn.Linear(N_INPUTS, N_INPUTS), True)):
        network = network_with(GumbelMatrix(2, 4), stem=stem)
        result = fit(network, regressions(), SETTINGS, baselines=2)
        assert result.baselines is not None and result.baselines.shares_rest is expected


def test_a_training_that_was_stopped_is_compared_with_nothing() -> None:
    def stop(progress: Progress) -> None:
        progress.stop()

    assert fitted(settings=SETTINGS.changed(rounds=30), on_progress=stop).baselines is None


def test_ctrl_c_ends_the_comparison_and_keeps_the_training(monkeypatch: MonkeyPatch) -> None:
    def interrupted(runs: list[Run], **options: Any) -> Any:
        for progress in train(runs, **options):
            signal.raise_signal(signal.SIGINT)
            yield progress

    monkeypatch.setattr(_baselines, "train", interrupted)
    result = fitted(settings=SETTINGS.changed(rounds=30))
    assert result.baselines is None
    assert result.rounds == 30 and not result.was_interrupted


def a_column_network() -> MultiTaskNetwork:
    components = [nn.Linear(N_INPUTS, 1) for _ in range(2)]
    return MultiTaskNetwork(None, [ColumnLayer(components, CrossStitch(2, 2), is_last=True)])


@mark.parametrize(
    ("network", "n_tasks", "baselines", "message"),
    [
        (lambda: network_with(GumbelMatrix(2, 4)), 2, 1, r"`baselines` should be at least 2\."),
        (lambda: network_with(GumbelMatrix(2, 4)), 2, "3", r"`baselines` should be a whole number"),
        (lambda: network_with(SharedBottom(2, 4)), 2, 2, r"Found 2 tasks and 0 layers with gates"),
        (lambda: network_with(GumbelMatrix(1, 4)), 1, True, r"Found 1 task and 1 layer"),
        (a_column_network, 2, 2, r"layers that take any allocation\. Found a ColumnLayer\."),
    ],
)
def test_bad_input_is_told_before_training(
    network: Callable[[], MultiTaskNetwork], n_tasks: int, baselines: Any, message: str
) -> None:
    def never(progress: Progress) -> None:
        raise AssertionError("It should not have begun.")

    with raises((TypeError, ValueError), match=message):
        fit(network(), regressions(n_tasks), SETTINGS, baselines=baselines, on_progress=never)


def test_batches_that_stream_need_a_validation_split() -> None:
    def loader(seed: int) -> DataLoader[Any]:
        return DataLoader(TensorDataset(*arrays(seed)), batch_size=8)

    network = network_with(GumbelMatrix(2, 4))
    with raises(ValueError, match=r"has a validation split to compare by, .* Found neither\."):
        fit(network, [Task(f"{t}", loader(t)) for t in range(2)], SETTINGS, baselines=2)
    tasks = [Task(f"{t}", loader(t), validation=arrays(t + 50)) for t in range(2)]
    with warns(UserWarning, match="Training one run at a time"):
        result = fit(network, tasks, SETTINGS, baselines=2)
    assert losses_of(result, "separate networks").shape == (2, 2)


def test_tasks_may_lack_what_others_have() -> None:
    first, second = classes(3, 3)
    mixed = [first, replace(second, validation=None, test=None)]
    network = MultiTaskNetwork(
        None, [ModularLayer([nn.Linear(N_INPUTS, 3) for _ in range(2)], GumbelMatrix(2, 2))]
    )
    result = fit(network, mixed, SETTINGS, baselines=2)
    assert np.isfinite(losses_of(result, "shared bottom")).all()


def test_the_network_of_a_way_is_that_of_its_best_run() -> None:
    result = fitted(baselines=3)
    assert result.baselines is not None
    for way, outcomes in result.baselines.outcomes.items():
        best = int(np.argmin(_costs(losses_of(result, way), result)))
        found = result.baselines.network(way).state_dict()
        assert n_different(found, dict(outcomes[best].weights)) == 0


def _costs(losses: np.ndarray, result: FitResult) -> np.ndarray:
    """Each run's mean over tasks, a task's losses being relative to their mean over all runs."""
    assert result.baselines is not None
    every = np.concatenate([losses_of(result, way) for way in result.baselines.outcomes])
    costs: np.ndarray = (losses / every.mean(axis=0)).mean(axis=1)
    return costs


def test_the_best_network_of_all_does_on_validation_what_was_recorded() -> None:
    tasks = regressions()
    result = fitted(tasks)
    assert result.baselines is not None
    best = min(_costs(losses_of(result, w), result).min() for w in result.baselines.outcomes)
    network = result.baselines.network()
    found = evaluate(network, tasks, "validation").losses
    assert_allclose(_costs(found[None], result)[0], best, rtol=1e-5)
    extract(network, 0)  # an ordinary network


def test_they_are_shown_as_a_table_of_means() -> None:
    result = fitted()
    assert result.baselines is not None
    title, _, head, *rows = str(result.baselines).splitlines()
    assert title == "Validation loss, mean over 2 seeds"
    assert head.split(maxsplit=1) == ["task", "learnt gates  shared bottom  separate networks"]
    means = losses_of(result, "shared bottom").mean(axis=0)
    for name, row, mean in zip(result.task_names, rows, means, strict=True):
        assert row.startswith(name) and f" {mean:.4g}  " in row


def test_more_of_a_metric_is_shown_as_more() -> None:
    tasks = [replace(task, metrics={"up": lambda y, t: 2.0}) for task in regressions()]
    for by in ("up", "-up"):
        shown = str(fitted(tasks, SETTINGS.changed(evaluate_every=10, keep_best=by)).baselines)
        assert shown.startswith("Validation up, mean") and "-" not in shown


def test_a_way_that_is_not_there_is_refused() -> None:
    result = fitted()
    assert result.baselines is not None
    with raises(ValueError, match=r"`way` should be one of 'learnt gates'.*Found `way = 'shared'`"):
        result.baselines.network("shared")
