import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from allotment.analysis import Estimate, disjoint, estimate


def test_mean_spread_and_interval_of_three_values() -> None:
    # By hand: sd = sqrt((1 + 0 + 1) / 2) = 1; t(0.95, 2) = 2.919986; half = 2.919986 / sqrt(3).
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.sd, found.median, found.n) == (2.0, 1.0, 2.0, 3)
    assert_allclose(found.half_width, 1.685855, rtol=1e-6)


def test_the_interval_is_scipys() -> None:
    values = np.random.default_rng(1).normal(5.0, 2.0, 30)
    found = estimate(values)
    expected = stats.t.interval(0.9, df=29, loc=values.mean(), scale=stats.sem(values))
    assert_allclose(found.interval, expected, rtol=1e-12)


def test_one_run_has_no_spread_and_says_so() -> None:
    found = estimate([0.31])
    assert math.isnan(found.sd)
    assert math.isnan(found.half_width)
    assert str(found) == "0.31 (n=1, no spread)"


def test_values_that_are_not_finite_are_left_out() -> None:
    assert estimate([1.0, math.nan, 3.0, math.inf]) == estimate([1.0, 3.0])
    assert str(estimate([math.nan])) == "no run"


@pytest.mark.parametrize(
    ("mean", "sd", "expected"),
    [
        (96.8123, 0.2, "96.8 ± 0.2 sd (n=30)"),
        (93.5, 5.1, "93.5 ± 5.1 sd (n=30)"),
        (3.1812, 0.15, "3.18 ± 0.15 sd (n=30)"),
        (0.3113, 0.0421, "0.31 ± 0.04 sd (n=30)"),
        (1.0, 0.0, "1.00 ± 0.00 sd (n=30)"),
    ],
)
def test_the_text_has_as_many_decimals_as_the_spread_deserves(
    mean: float, sd: float, expected: str
) -> None:
    assert str(Estimate(mean=mean, sd=sd, half_width=sd, median=mean, n=30)) == expected


def test_equal_values_have_no_spread_whatever_their_mean_is_rounded_to() -> None:
    assert estimate([0.95] * 3).sd == 0.0
    assert str(estimate([0.95] * 3).complement().scaled(100)) == "5.00 ± 0.00 sd (n=3)"


def test_an_estimate_in_percent() -> None:
    assert str(estimate([0.966, 0.968, 0.970]).scaled(100)) == "96.8 ± 0.2 sd (n=3)"


@pytest.mark.parametrize(
    ("other", "expected"),
    [([1.5, 2.5, 3.5], False), ([9.0, 9.1, 9.2], True), ([-9.0, -9.1], True), ([9.0], False)],
)
def test_disjoint_intervals(other: list[float], expected: bool) -> None:
    assert disjoint(estimate([1.0, 2.0, 3.0]), estimate(other)) is expected
