"""What experiments train with, against the paper and its authors' code."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest import mark

from allotment.allocation import GumbelMatrix
from allotment.experiments import Experiment, TaskChoice, using
from allotment.paper import CAUSES, COMPARED, EXPERIMENTS, MAPS, REMEDIES
from allotment.paper._omniglot_alone import ALONE
from allotment.settings import Augmentation, Penalties

REPOSITORY = Path(__file__).parents[2]

# Rounds, batch, learning rate, that of allocations, L2, largest norm, rounds between checks, crop.
TRAINING = {
    "transfer": (3_000, 64, 0.01, 0.01, 0.0, 1.0, None, 0),
    "two_pairs": (3_000, 64, 0.01, 0.01, 0.0, 1.0, None, 0),
    "mnist": (37_500, 16, 0.005, 0.005, 0.0, None, None, 0),
    "omniglot": (8_000, 16, 1e-4, 2e-3, 3e-4, None, 250, 0),
    "clusters": (20_000, 32, 3e-4, 6e-3, 0.0, None, None, 4),
}


@mark.parametrize("name", TRAINING)
def test_the_paper_s_experiments_train_with_its_settings(name: str) -> None:
    found = EXPERIMENTS[name].training
    how = found.optimization
    rates = (how.learning_rate, how.allocation_learning_rate or how.learning_rate)
    declared = (found.rounds, found.batch_size, *rates, how.weight_decay, how.clip_norm)
    assert (*declared, found.evaluate_every, found.augmentation.crop) == TRAINING[name]
    assert (found.schedule, how.lr_schedule, how.ema_decay) == ("alternating", "constant", 0.0)
    assert replace(found.augmentation, crop=0) == Augmentation()


@mark.parametrize(
    ("name", "method", "options", "training"),
    [
        ("two_pairs", "gumbel", {}, {}),
        ("mnist", "gumbel", {}, {}),
        ("mnist", "gumbel_budget", {}, {"budget": 0.75}),
        ("omniglot", "gumbel", {"p_init": 0.97}, {}),
        ("clusters", "gumbel_budget", {}, {"budget": 0.5}),
    ],
)
def test_learnt_methods_begin_and_are_limited_as_in_the_paper(
    name: str, method: str, options: dict[str, Any], training: dict[str, Any]
) -> None:
    declared = EXPERIMENTS[name].method(method)
    assert declared.allocation == using(GumbelMatrix, keeps_one=False, **options)
    assert declared.training == training
    penalties = declared.settings(EXPERIMENTS[name].training).penalties
    assert penalties == Penalties(budget=training.get("budget"))


def test_gates_are_as_likely_open_as_shut_at_first_unless_declared() -> None:
    assert using(GumbelMatrix)(2, 3).probabilities().unique().tolist() == [0.5]


@mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)
def test_kept_results_are_of_declared_methods(experiment: Experiment) -> None:
    kept = (REPOSITORY / "results" / experiment.name).glob("*.json")
    headers = [json.loads(path.read_text())["header"] for path in kept]
    some = (*COMPARED.values(), *MAPS, *CAUSES, *REMEDIES, ALONE)  # of these not all have to be run
    assert headers or experiment in some
    for header in headers:
        assert header["condition"] in experiment.data.conditions
        method = experiment.method(header["method"])
        restored = method.allocation.as_recorded(header["settings"]["allocation"])
        assert restored(2, 8, n_features=3).is_learnt == method.is_learnt


@mark.parametrize("name", ["comparison_two_pairs", "comparison_digits"])
def test_the_balance_of_experts_is_charged_until_the_end_and_no_longer(name: str) -> None:
    experiment = EXPERIMENTS[name]
    n_tasks = len(experiment.make_tasks(TaskChoice("", 0, None)))
    options = dict(experiment.method("top_k").allocation.options)
    assert options["balance_batches"] == n_tasks * experiment.training.rounds
