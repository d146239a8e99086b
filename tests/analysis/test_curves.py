from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pytest import approx

from allotment.analysis import accuracy_by_checkpoint, error_curves, late_change, loss_band
from allotment.analysis._curves import smooth
from allotment.records import RunRecord
from tests.records.made_up import a_header, a_record, an_evaluation, an_outcome, failed_run


def flat(level: float, rounds: list[int], seed: int = 0) -> RunRecord:
    losses = np.full((len(rounds), 4), level)
    return a_record(a_header(seed=seed), rounds=np.array(rounds), losses=losses)


def test_smoothing_takes_the_last_points_and_at_most_half_of_those_so_far() -> None:
    curve = np.array([1.0, 3.0, 5.0, 7.0, 9.0, 11.0])
    assert_allclose(smooth(curve, 1), curve)
    assert_allclose(smooth(curve, 2), [1.0, 3.0, 4.0, 6.0, 8.0, 10.0])
    assert_allclose(smooth(curve, 99), [1.0, 3.0, 4.0, 6.0, 7.0, 9.0])


@pytest.mark.parametrize("window", [0, -3])
def test_a_window_holds_a_point(window: int) -> None:
    with pytest.raises(ValueError, match="`window` should be at least 1"):
        smooth(np.ones(3), window)


def test_the_band_is_the_interval_over_runs() -> None:
    # By hand: sd of 1, 2, 3 is 1; t(0.95, 2) / sqrt(3) = 1.685855.
    band = loss_band([flat(level, [10, 20]) for level in (1.0, 2.0, 3.0)], window=10)
    assert_allclose(band.rounds, [10, 20])
    assert_allclose(band.mean, [2.0, 2.0])
    assert_allclose(band.high - band.mean, [1.685855] * 2, rtol=1e-6)
    assert_allclose(band.mean - band.low, [1.685855] * 2, rtol=1e-6)
    assert band.n_runs == 3


def test_the_window_counts_rounds() -> None:
    losses = np.repeat([[2.0], [4.0], [6.0]], 4, axis=1)
    record = a_record(rounds=np.array([50, 100, 150]), losses=losses)
    assert_allclose(loss_band([record], window=100).mean, [2.0, 4.0, 5.0])
    assert_allclose(loss_band([record], window=1).mean, [2.0, 4.0, 6.0])


def test_runs_of_different_length_meet_at_the_shortest() -> None:
    band = loss_band([flat(1.0, [10, 20, 30, 40]), flat(3.0, [15, 30])], window=1)
    assert_allclose(band.rounds, [15, 30])
    assert_allclose(band.mean, [2.0, 2.0])


def test_one_run_has_no_band_and_no_run_has_no_curve() -> None:
    assert np.isnan(loss_band([flat(1.0, [10, 20])], window=1).low).all()
    assert len(loss_band([failed_run()], window=1).rounds) == 0


def looks(errors: dict[int, float], seed: int = 0) -> RunRecord:
    seen = [
        (at, an_evaluation(np.full(4, 1 - error), "validation")) for at, error in errors.items()
    ]
    return a_record(a_header(seed=seed), validation=tuple(seen))


def test_the_mean_error_is_taken_where_all_runs_looked() -> None:
    found = error_curves([looks({10: 0.4, 20: 0.2, 30: 0.1}), looks({10: 0.6, 30: 0.3}, seed=1)])
    assert_allclose(found.rounds, [10, 30])
    assert_allclose(found.mean, [0.5, 0.2])
    assert_allclose(found.runs[0][0], [10, 20, 30])
    assert_allclose(found.runs[0][1], [0.4, 0.2, 0.1])


def test_runs_without_looks_or_that_failed_have_no_error_curve() -> None:
    without = an_evaluation(None, "validation")
    silent = a_record(validation=((10, without), (20, without)))
    assert error_curves([a_record(), failed_run(), silent]).runs == ()
    assert len(error_curves([]).rounds) == 0


def test_late_change_is_between_the_means_of_the_last_two_quarters() -> None:
    # Half of 80 rounds is 40, which belongs to the first half, as 60 does to the third quarter.
    falling = looks({40: 0.9, 50: 0.4, 60: 0.2, 70: 0.3, 80: 0.1})
    rising = looks({40: 0.0, 60: 0.1, 80: 0.3}, seed=1)
    assert late_change([falling]).mean == approx(0.2 - 0.3)
    failed = replace(failed_run(), validation=falling.validation)
    both = late_change([falling, rising, failed])
    assert both.mean == approx((-0.1 + 0.2) / 2) and both.n == 2


def test_runs_that_did_not_look_in_both_quarters_have_no_late_change() -> None:
    assert late_change([a_record(), looks({80: 0.1}), looks({20: 0.2, 80: 0.1})]).n == 0


def chosen(*checks: list[float], best: int | None = None) -> RunRecord:
    """A run of two tasks with these validation accuracies, of which one check was chosen."""
    place = int(np.nanmean(checks, axis=1).argmax()) if best is None else best
    seen = tuple(
        (10 * (at + 1), an_evaluation(np.array(row), "validation")) for at, row in enumerate(checks)
    )
    return a_record(outcome=an_outcome(best_round=10 * (place + 1)), validation=seen)


def test_accuracies_of_checkpoints_are_of_one_for_all_tasks_of_one_for_each_or_of_none() -> None:
    run = chosen([0.2, 0.3], [0.9, 0.5], [0.6, 0.9], [0.7, 0.5])
    other = chosen([0.5, 0.5], [0.5, 0.7])
    found = accuracy_by_checkpoint([run, other])
    assert {name: each.mean for name, each in found.items()} == approx(
        {
            "the best of a run": (0.75 + 0.6) / 2,
            "the best of each task": (0.9 + 0.6) / 2,
            "mean over the later half": (0.675 + 0.6) / 2,
        }
    )
    assert found["the best of a run"].sd == approx(np.std([0.75, 0.6], ddof=1))


def test_a_task_without_accuracies_takes_no_part_in_choosing_a_checkpoint() -> None:
    mixed = chosen([np.nan, 0.3], [np.nan, 0.5])
    assert accuracy_by_checkpoint([mixed])["the best of a run"].mean == approx(0.5)


def test_the_checkpoint_of_a_run_is_the_one_that_was_kept_by_whatever_measure() -> None:
    by_loss = chosen([0.8, 0.6], [0.5, 0.3], best=1)
    assert accuracy_by_checkpoint([by_loss])["the best of a run"].mean == approx(0.4)


def test_runs_without_accuracies_of_their_checks_have_none_of_checkpoints() -> None:
    outcome, seen = an_outcome(best_round=10), an_evaluation(np.ones(2), "validation")
    losses = tuple((at, replace(seen, accuracies=None)) for at in (10, 20))
    unknown = tuple((at, replace(seen, accuracies=np.full(2, np.nan))) for at in (10, 20))
    records = [a_record(outcome=outcome, validation=checks) for checks in ((), losses, unknown)]
    assert accuracy_by_checkpoint(records) == {}


def test_runs_that_nothing_was_chosen_for_have_no_accuracies_of_checkpoints() -> None:
    once, last = chosen([0.5, 0.5]), looks({10: 0.4, 20: 0.2})
    assert accuracy_by_checkpoint([once, last, a_record(), failed_run()]) == {}
