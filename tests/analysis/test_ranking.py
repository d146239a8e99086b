"""Ranks over suites, against the example that Demsar (2006) works through."""

import math
from typing import Any

import numpy as np
from pytest import approx, mark, raises

from allotment.analysis import critical_difference, ranking

METHODS = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
# AUC on 14 data sets (Demsar, Table 6).
AUC = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],  # printed alike, and ranked 2 and 3
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_the_published_example_comes_out_as_printed() -> None:
    found = ranking(METHODS, AUC, higher_is_better=[True] * 14)
    assert found.mean_ranks == approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert found.chi_square == approx(9.28, abs=5e-3)
    assert found.f_statistic == approx(3.69, abs=5e-3)
    assert found.critical_difference == approx(1.25, abs=5e-3)
    assert found.p_value < 0.05  # F(3, 39) = 3.69 lies above 2.85
    assert found.n_suites == 14


def test_ties_share_the_mean_of_their_ranks_and_win_nothing() -> None:
    found = ranking(METHODS, AUC, higher_is_better=[True] * 14)
    assert found.ranks[9].tolist() == [2.5] * 4
    assert found.ranks[7].tolist() == [2.5, 2.5, 4.0, 1.0]
    assert found.wins == (2, 4, 1, 6)


def test_of_losses_the_smallest_ranks_first() -> None:
    values = np.array([[0.9, 0.8, 0.7], [1.0, 2.0, 3.0]])
    found = ranking("abc", values, higher_is_better=[True, False])
    assert found.ranks.tolist() == [[1, 2, 3], [1, 2, 3]]
    assert found.f_statistic == math.inf and found.p_value == 0.0
    assert found.chi_square == approx(4.0)  # N (k - 1), the largest there is


@mark.parametrize(
    ("n_methods", "q"),  # Demsar, Table 5a
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)],
)
def test_critical_values_are_those_printed(n_methods: int, q: float) -> None:
    unit = math.sqrt(n_methods * (n_methods + 1) / (6 * 14))
    assert critical_difference(14, n_methods) == approx(q * unit, abs=1e-3)


def test_one_suite_or_two_methods_have_no_test() -> None:
    one = ranking("abc", np.array([[1.0, 2.0, 3.0]]), higher_is_better=[True])
    assert one.mean_ranks.tolist() == [3, 2, 1] and one.wins == (0, 0, 1)
    assert math.isnan(one.p_value) and math.isnan(one.critical_difference)
    two = ranking("ab", np.array([[1.0, 2.0], [1.0, 3.0]]), higher_is_better=[True, True])
    assert math.isnan(two.p_value) and two.critical_difference > 0


@mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 2.0, 3.0]], r"a column for each method\. Found shape \[1, 3\]"),
        ([[1.0, float("nan")]], r"`values` should be finite\. Found 1"),
    ],
)
def test_what_cannot_be_ranked(values: Any, message: str) -> None:
    with raises(ValueError, match=message):
        ranking("ab", np.array(values), higher_is_better=[True])
