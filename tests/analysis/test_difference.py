import math

import numpy as np
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


def test_differences_that_differ_by_rounding_alone_are_tied() -> None:
    # 0.3 - 0.2 and 0.2 - 0.1 differ by 1e-17; their rank is 3, as that of 1.1 - 1.0. The one below
    # 0 has rank 1: of 32 choices of signs 2 have so small a sum below 0.
    above = [0.3 - 0.2, 0.2 - 0.1, 1.1 - 1.0, -0.01, 0.5]
    a = [loss_run(1.0 + value, seed) for seed, value in enumerate(above)]
    found = paired_difference(a, [loss_run(1.0, seed) for seed in range(5)])
    assert found.wilcoxon_p_value == pytest.approx(2 * 2 / 32)
    tied = [loss_run(1.0 + value, seed) for seed, value in enumerate([0.2, 0.2, 0.2, -0.2, 0.2])]
    found = paired_difference(tied, [loss_run(1.0, seed) for seed in range(5)])
    assert found.wilcoxon_p_value == pytest.approx(2 * 6 / 32)  # as a sign test: 5 + 1 of 32


@pytest.mark.parametrize("n", [2, 5, 9, 20])
def test_without_ties_the_signed_ranks_are_those_of_scipy(n: int) -> None:
    values = np.random.default_rng(n).normal(0.3, 1.0, n)
    a = [loss_run(1.0 + value, seed) for seed, value in enumerate(values)]
    found = paired_difference(a, [loss_run(1.0, seed) for seed in range(n)])
    assert found.wilcoxon_p_value == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)
