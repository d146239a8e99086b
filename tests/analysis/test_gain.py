"""What a method gains over the better of two, and lacks to an oracle."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.testing import assert_allclose
from pytest import approx, mark
from scipy import stats

from allotment._schema import Evaluation
from allotment.analysis import advantage, best_on_validation, gain
from allotment.records import RunRecord
from tests.records.made_up import a_header, a_record, accuracy_run, an_outcome, failed_run

LEARNT, ALONE, SHARED = [1.0, 1.2, 1.1], [2.0, 2.1, 2.2], [3.0, 3.1, 3.2]


def runs(losses: Sequence[float], method: str = "a", validation: float = 1.0) -> list[RunRecord]:
    """Returns a run for each loss, the mean over its two tasks."""
    found = []
    for seed, loss in enumerate(losses):
        test = Evaluation(split="test", losses=np.array([loss - 0.5, loss + 0.5]), accuracies=None)
        check = Evaluation(split="validation", losses=np.full(2, validation), accuracies=None)
        header = a_header(method=method, seed=seed, measure="test_loss")
        found.append(a_record(header, an_outcome(test=test, validation=check)))
    return found


def test_a_gain_is_a_share_of_the_better_one_s_loss_paired_by_seed() -> None:
    found = gain({"g": runs(LEARNT), "a": runs(ALONE), "s": runs(SHARED)}, "g", ["a", "s"])
    assert found is not None
    differences = 100 * (np.array(ALONE) - LEARNT) / np.mean(ALONE)
    half = stats.t.ppf(0.95, 2) * differences.std(ddof=1) / math.sqrt(3)
    value = found.over_baseline
    assert found.baseline == "a"
    assert value.mean == approx(differences.mean())
    assert (value.n, value.sign) == (3, 1)
    assert_allclose([value.low, value.high], differences.mean() + np.array([-half, half]))
    assert found.behind_oracle is None
    assert found.measures["s"].mean == approx(3.1)


def test_the_better_baseline_is_the_one_with_the_better_mean() -> None:
    for order in (["a", "s"], ["s", "a"]):
        found = gain({"g": runs(LEARNT), "a": runs(SHARED), "s": runs(ALONE)}, "g", order)
        assert found is not None and found.baseline == "s"


def test_what_is_missing_to_the_oracle_is_a_share_of_the_method_s_loss() -> None:
    every = {"g": runs(ALONE), "a": runs(SHARED), "s": runs(SHARED), "o": runs(LEARNT)}
    found = gain(every, "g", ["a", "s"], "o")
    assert found is not None and found.behind_oracle is not None
    assert found.behind_oracle.mean == approx(100 * (2.1 - 1.1) / 2.1)
    assert found.behind_oracle.sign == 1


def test_of_accuracies_it_is_the_difference_in_points_and_more_is_better() -> None:
    better, worse = (
        [accuracy_run([value + 0.01 * seed] * 4, seed) for seed in range(3)]
        for value in (0.9, 0.87)
    )
    found = gain({"g": better, "a": worse, "s": worse[:2]}, "g", ["a", "s"])
    assert found is not None
    assert found.over_baseline.mean == approx(3.0)
    assert found.baseline == "a"  # seed 2, the best, lifts its mean
    assert advantage(worse, better).mean == approx(-3.0)
    assert advantage(worse, better).sign == -1


@mark.parametrize(
    ("a", "b", "sign"),
    [
        ([1.0, 1.0, 1.0], [2.0, 2.1, 2.2], 1),
        ([2.0, 2.1, 2.2], [1.0, 1.0, 1.0], -1),
        ([1.0, 3.0, 1.0], [2.0, 1.0, 3.0], 0),
        ([1.0], [2.0], 0),  # one seed has no interval
    ],
)
def test_the_sign_is_that_of_an_interval_that_leaves_out_0(
    a: list[float], b: list[float], sign: int
) -> None:
    assert advantage(runs(a), runs(b)).sign == sign


def test_there_is_no_gain_without_runs_of_all_that_are_compared() -> None:
    every = {"g": runs(LEARNT), "a": runs(ALONE), "s": runs(SHARED)}
    for name in every:
        left = {other: found for other, found in every.items() if other != name}
        assert gain(left, "g", ["a", "s"]) is None
        assert gain(left | {name: [failed_run(measure="test_loss")]}, "g", ["a", "s"]) is None


def test_trials_are_told_apart_by_validation_and_never_by_test() -> None:
    slow, fast = runs([1.0, 1.0], validation=2.0), runs([9.0, 9.0], validation=1.0)
    assert best_on_validation([slow, fast]) is fast
    assert best_on_validation([[], slow]) is slow
    assert best_on_validation([[failed_run(measure="test_loss")], slow]) is slow
    assert best_on_validation([[], []]) == []
