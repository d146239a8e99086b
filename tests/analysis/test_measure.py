import math
from dataclasses import replace

import numpy as np
import pytest

from allotment.analysis import (
    group_runs,
    measure,
    summarise,
    typical_run,
    used_shares,
    validation_measure,
)
from allotment.analysis._measure import collapsed
from tests.records.made_up import (
    PAIRS,
    a_header,
    a_record,
    accuracy_run,
    an_evaluation,
    an_outcome,
    failed_run,
    loss_run,
)


def test_the_measure_is_the_last_loss_or_the_mean_test_accuracy() -> None:
    assert measure(loss_run(0.42, 0)) == 0.42
    assert measure(accuracy_run([0.9, 0.8, 0.7, 0.6])) == pytest.approx(0.75)
    assert math.isnan(measure(failed_run()))


def test_runs_are_chosen_by_validation_whatever_is_reported() -> None:
    alone = loss_run(0.42, 0)
    assert validation_measure(alone) == 0.42  # all that there is
    seen = replace(an_evaluation(split="validation"), losses=np.array([0.5, math.nan, 0.7]))
    validated = replace(alone, outcome=replace(alone.outcome, validation=seen))
    assert validation_measure(validated) == pytest.approx(0.6)  # of the tasks that have one
    assert measure(validated) == 0.42
    assert math.isnan(validation_measure(failed_run()))


@pytest.mark.parametrize(
    ("accuracies", "n_classes", "expected"),
    [
        ([0.9, 0.9, 0.9, 0.9], (10, 10, 10, 10), False),
        ([0.9, 0.9, 0.9, 0.15], (10, 10, 10, 10), True),
        ([0.9, 0.9, 0.9, 0.16], (10, 10, 10, 10), False),
        ([0.9, 0.9, 0.9, 0.3], (10, 10, 10, 5), True),
        ([0.9, 0.9, 0.9, 0.2], (), True),
        ([0.9, 0.9, 0.9, 0.21], (), False),
    ],
)
def test_a_run_with_a_task_near_chance_has_collapsed(
    accuracies: list[float], n_classes: tuple[int, ...], expected: bool
) -> None:
    assert collapsed(accuracy_run(accuracies, n_classes=n_classes)) is expected


def test_a_regression_never_collapses() -> None:
    assert not collapsed(loss_run(99.0, 0))


def test_runs_are_grouped_and_in_order_of_seed() -> None:
    runs = [loss_run(1.0, seed, method=method) for seed in (2, 0, 1) for method in "ab"]
    groups = group_runs(runs)
    assert list(groups) == [("two_pairs", "", "a"), ("two_pairs", "", "b")]
    assert [run.header.seed for run in groups["two_pairs", "", "a"]] == [0, 1, 2]


def test_failed_runs_are_counted_and_left_out_of_the_mean() -> None:
    found = summarise([loss_run(1.0, 0), loss_run(3.0, 1), failed_run(2)])
    assert (found.n_runs, found.n_failed, found.n_recovered) == (3, 1, 2)
    assert (found.measure.mean, found.measure.n) == (2.0, 2)
    assert found.share_active.mean == pytest.approx(6 / 16)


def test_without_families_nothing_is_said_of_recovery() -> None:
    assert summarise([loss_run(1.0, 0, families=())]).n_recovered is None
    assert summarise([]).n_recovered is None


def test_the_share_active_counts_open_gates() -> None:
    assert used_shares(a_record()).mean() == pytest.approx(6 / 16)


@pytest.mark.parametrize(
    ("values", "expected"), [([5.0], 5.0), ([3.0, 1.0, 2.0], 2.0), ([4.0, 1.0, 2.0, 3.0], 2.0)]
)
def test_the_typical_run_is_the_median_one(values: list[float], expected: float) -> None:
    found = typical_run(
        [*[loss_run(value, seed) for seed, value in enumerate(values)], failed_run()]
    )
    assert found is not None
    assert measure(found) == expected


def test_there_is_no_typical_run_among_failed_ones() -> None:
    assert typical_run([failed_run()]) is None


def test_a_family_on_one_row_is_counted_apart_from_families_that_differ() -> None:
    one_row = a_record(a_header(seed=1), an_outcome(matrix=PAIRS[[0, 0, 0, 0]]))
    found = summarise([loss_run(1.0, 0), one_row])
    assert (found.n_uniform, found.n_recovered) == (2, 1)


def test_a_run_that_failed_has_found_nothing_whatever_gates_it_had() -> None:
    runs = [loss_run(1.0, 0), loss_run(1.0, 1), failed_run(2)]  # all with the pairs' rows
    found = summarise(runs)
    assert (found.n_runs, found.n_failed) == (3, 1)
    assert (found.n_uniform, found.n_recovered, found.n_separated) == (2, 2, 2)
