"""Learning rates chosen on validation, before the runs that count."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pytest import TempPathFactory, fixture, mark, param, raises
from torch import nn

from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.experiments import (
    Allocate,
    Experiment,
    Method,
    RateSearch,
    Stop,
    Stopped,
    Sweep,
    run_groups,
    run_sweep,
    using,
)
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.records import RunRecord, keep_rates, read_kept_rates, read_rates, read_run
from allotment.settings import Optimization, TrainingSettings
from allotment.tasks import Task

N = 40


def network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    layer = ModularLayer([nn.Linear(3, 4) for _ in range(2)], allocate(2))
    return MultiTaskNetwork(None, [layer], {name: nn.Linear(4, 1) for name in outputs})


def tasks() -> list[Task]:
    """Two regressions that a larger rate learns faster than the declared one."""
    x = torch.randn(3 * N, 3, generator=torch.Generator().manual_seed(0))
    train, validation, test = x[:N], x[N : 2 * N], x[2 * N :]

    def task(name: str, sign: float) -> Task:
        first, second, third = ((part, sign * part.sum(1)) for part in (train, validation, test))
        return Task(name, first, second, third)

    return [task("a", 1.0), task("b", -1.0)]


EXPERIMENT = Experiment(
    name="mine",
    tasks=tasks(),
    network=network,
    methods=[
        Method(name="shared", allocation=using(SharedBottom)),
        Method(name="gumbel", allocation=using(GumbelMatrix)),
    ],
    training=TrainingSettings(
        rounds=30,
        batch_size=8,
        optimization=Optimization(learning_rate=0.003, allocation_learning_rate=0.01),
    ),
    search=RateSearch(),
    n_runs=2,
)


def sweep(tmp_path: Path, **changes: Any) -> Sweep:
    experiment = replace(EXPERIMENT, **changes.pop("experiment", {}))
    return Sweep(experiment=experiment, out=tmp_path / "runs", **changes)


@fixture(scope="module")
def whole(tmp_path_factory: TempPathFactory) -> Path:
    """A folder that holds what a sweep leaves that is never stopped."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole")
    run_sweep(sweep(out))
    return out


def runs_in(folder: Path) -> list[RunRecord]:
    return [read_run(path) for path in sorted((folder / "runs").glob("*/seed-*"))]


def test_the_best_on_validation_is_chosen_and_trained_with(whole: Path) -> None:
    folders = sorted((whole / "runs").glob("*/seed-*"))
    assert [folder.name for folder in folders] == ["seed-000", "seed-001"] * 2
    chosen = json.loads((whole / "runs" / "rates.json").read_text())
    assert chosen["experiment"] == "mine"
    for folder in folders:
        header = read_run(folder).header
        choice = chosen["methods"][header.method]
        means = {trial["factor"]: sum(trial["validation"]) / 2 for trial in choice["tried"]}
        assert choice["factor"] == min(means, key=lambda factor: means[factor])
        assert choice["factor"] == 3.0
        rates = header.settings["training"]["optimization"]
        assert rates["learning_rate"] == 0.003 * 3.0
        assert rates["allocation_learning_rate"] == 0.01 * 3.0
        assert all(trial["seeds"] == [1_000, 1_001] for trial in choice["tried"])
        assert header.experiment == "mine"


def test_nothing_is_chosen_on_test(whole: Path, tmp_path: Path) -> None:
    spoilt = [replace(task, test=(torch.randn(9, 3), torch.randn(9))) for task in tasks()]
    run_sweep(sweep(tmp_path, experiment={"tasks": spoilt}))
    assert read_rates(whole / "runs") == read_rates(tmp_path / "runs") != {}


def test_the_rates_of_a_method_train_together(whole: Path) -> None:
    trials = sorted((whole / "runs-search").glob("*/seed-*"))
    assert len(trials) == 2 * 3 * 2
    assert {read_run(folder).outcome.n_together for folder in trials} == {6}
    assert all(read_run(folder).header.experiment == "mine_search" for folder in trials)


def test_a_choice_is_made_once(tmp_path: Path) -> None:
    run_sweep(sweep(tmp_path, methods=EXPERIMENT.methods[:1]))
    first = read_rates(tmp_path / "runs")
    run_sweep(sweep(tmp_path, methods=EXPERIMENT.methods[1:]))
    both = read_rates(tmp_path / "runs")
    assert list(both) == ["shared", "gumbel"] and both["shared"] == first["shared"]
    run_sweep(sweep(tmp_path, methods=EXPERIMENT.methods[:1], first_seed=5))
    assert read_rates(tmp_path / "runs") == both


def test_other_declared_rates_than_those_of_the_search_are_told(
    whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    training = EXPERIMENT.training.changed(learning_rate=0.1)
    with raises(ValueError, match=r"'shared' should be those its search began with"):
        run_sweep(sweep(tmp_path, experiment={"training": training}, first_seed=7))


@mark.parametrize(  # in the search, at its end, and in the runs that count
    "n_blocks", [1, param(4, marks=mark.slow), 7]
)
def test_a_sweep_that_was_stopped_ends_as_one_that_was_not(
    n_blocks: int, whole: Path, tmp_path: Path
) -> None:
    stop, seen = Stop(), []

    def on_progress(*news: Any) -> None:
        seen.append(news)
        if len(seen) == n_blocks:
            stop.ask("enough")

    with raises(Stopped):
        run_sweep(sweep(tmp_path, options={"experiment": "mine"}), on_progress, stop=stop)
    run_sweep(sweep(tmp_path, resume=True))
    for a, b in zip(runs_in(whole), runs_in(tmp_path), strict=True):
        assert a.header.settings == b.header.settings
        assert a.outcome.final_loss == b.outcome.final_loss


def test_kept_rates_are_those_of_all_sweeps(tmp_path: Path) -> None:
    run_sweep(sweep(tmp_path / "a", methods=EXPERIMENT.methods[:1]))
    run_sweep(sweep(tmp_path / "b", methods=EXPERIMENT.methods[1:]))
    for name in "ab":
        (path,) = keep_rates([tmp_path / name], tmp_path / "results")
    assert path == tmp_path / "results" / "rates" / "mine.json"
    assert set(read_kept_rates(tmp_path / "results", "mine")) == {"shared", "gumbel"}
    assert read_kept_rates(tmp_path / "results", "another") == {}


def test_a_rate_that_fails_is_never_the_best(tmp_path: Path) -> None:
    search = RateSearch(factors=(1e30, 1.0))
    run_sweep(sweep(tmp_path, experiment={"search": search}))
    chosen = read_rates(tmp_path / "runs")
    assert {choice["factor"] for choice in chosen.values()} == {1.0}
    assert chosen["shared"]["tried"][0]["validation"] == [None, None]


def test_seeds_of_the_search_are_others(tmp_path: Path) -> None:
    with raises(ValueError, match=r"should be others .* Found seed 1000 in both"):
        run_sweep(sweep(tmp_path, first_seed=999))
    assert len(list(run_groups(sweep(tmp_path, first_seed=998)))) == 2


def test_without_validation_there_is_nothing_to_choose_by(tmp_path: Path) -> None:
    without = [replace(task, validation=None) for task in tasks()]
    with raises(ValueError, match=r"chosen on validation, .* Found task 'a' with neither"):
        run_sweep(sweep(tmp_path, experiment={"tasks": without}))
    assert not list(tmp_path.rglob("summary.json"))  # told before anything is trained


@mark.parametrize(
    ("options", "message"),
    [
        ({"factors": ()}, r"`factors` should be positive numbers\. Found `factors = \(\)`"),
        ({"factors": (1.0, 0.0)}, "`factors` should be positive"),
        ({"n_runs": 0}, r"`n_runs` should be at least 1\. Found `n_runs = 0`"),
    ],
)
def test_bad_searches(options: dict[str, Any], message: str) -> None:
    with raises(ValueError, match=message):
        RateSearch(**options)
