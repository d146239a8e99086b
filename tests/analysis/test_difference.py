import math

import pytest
from scipy import stats

from allotment.analysis import paired_difference
from tests.records.made_up import a_header, a_record, an_outcome, failed_run, loss_run


def test_differences_are_taken_seed_by_seed() -> None:
    # By hand: differences 1, 2, 3; mean 2, half-width 1.685855 as for any three such values.
    a = [loss_run(11.0, 0), loss_run(22.0, 1), loss_run(33.0, 2), loss_run(99.0, 7), failed_run(8)]
    b = [loss_run(30.0, 2), loss_run(10.0, 0), loss_run(20.0, 1), loss_run(1.0, 8)]
    found = paired_difference(a, b)
    assert (found.mean, found.n) == (2.0, 3)
    assert found.half_width == pytest.approx(1.685855)
    assert found.interval == pytest.approx((0.314145, 3.685855), rel=1e-5)
    assert found.t_p_value == pytest.approx(stats.ttest_rel([11, 22, 33], [10, 20, 30]).pvalue)
    assert found.wilcoxon_p_value == pytest.approx(0.25)  # all of three one way: 2 / 2**3


def test_equal_runs_do_not_differ() -> None:
    runs = [loss_run(1.0, seed) for seed in range(3)]
    found = paired_difference(runs, runs)
    assert (found.mean, found.t_p_value, found.wilcoxon_p_value) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_pairs_say_nothing(n: int) -> None:
    a = [loss_run(2.0, seed) for seed in range(n)]
    found = paired_difference(a, [loss_run(1.0, seed) for seed in range(5)])
    assert found.n == n
    assert math.isnan(found.half_width)
    assert math.isnan(found.t_p_value)


def test_a_run_that_failed_is_in_no_pair_whatever_loss_it_had() -> None:
    failed = an_outcome(status="failed", failed_step=77, final_loss=0.5)
    a = [loss_run(2.0, 0), loss_run(3.0, 1), a_record(a_header(seed=2), failed)]
    found = paired_difference(a, [loss_run(1.0, seed) for seed in range(3)])
    assert (found.mean, found.n) == (1.5, 2)
