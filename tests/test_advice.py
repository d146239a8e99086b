"""Ways of sharing compared seed by seed, with costs whose answer is known."""

from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from pytest import approx, mark
from scipy import stats

from allotment._advice import LEARNT, SEPARATE, SHARED, Advice, compare, gap, t_quantile
from allotment._schema import Floats


def costs(values: list[float], n_tasks: int = 1) -> Floats:
    """Returns the same costs of every task, a row for each seed."""
    return np.repeat(np.array(values)[:, None], n_tasks, axis=1)


@mark.parametrize("n_free", [1, 2, 4, 9, 29])
@mark.parametrize("p", [0.05, 0.5, 0.95, 0.99])
def test_the_quantile_is_that_of_student(p: float, n_free: int) -> None:
    assert t_quantile(p, n_free) == approx(stats.t.ppf(p, n_free), rel=1e-4, abs=1e-9)


def test_a_gap_has_the_t_interval_of_paired_differences() -> None:
    a, b = np.array([1.2, 2.3, 3.1, 4.4]), np.array([1.0, 2.0, 3.0, 4.0])
    low, high = stats.ttest_rel(a, b).confidence_interval(0.9)
    assert_allclose(gap(a, b), np.array([0.25, low, high]) / b.mean(), rtol=1e-5)


@mark.parametrize(
    ("shared", "separate", "learnt", "expected"),
    [
        ([1.0, 1.1, 0.9], [2.0, 2.1, 1.9], [0.5, 0.6, 0.4], LEARNT),  # each seed the same
        ([1.0, 1.1, 0.9], [2.0, 2.1, 1.9], [1.2, 1.3, 1.1], SHARED),
        ([2.0, 2.1, 1.9], [1.0, 1.1, 0.9], [1.2, 1.3, 1.1], SEPARATE),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], SHARED),  # the simplest of equals
        ([2.0, 2.1, 1.9], [1.0, 1.1, 0.9], [1.0, 1.1, 0.9], SEPARATE),
        ([1.0, 1.1, 0.9], [3.0, 3.1, 2.9], [0.9, 1.1, 0.97], SHARED),  # 1 % within chance
        ([1.0, 2.0, 0.5], [3.0, 3.1, 2.9], [0.9, 0.5, 0.97], "cannot tell"),  # 47 % within chance
        ([3.0, 3.1, 2.9], [1.0, 2.0, 0.5], [0.9, 0.5, 0.97], "cannot tell"),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], SHARED),  # no error at all
    ],
)
def test_the_simplest_way_that_no_other_beats(
    shared: list[float], separate: list[float], learnt: list[float], expected: str
) -> None:
    found = compare({LEARNT: costs(learnt), SHARED: costs(shared), SEPARATE: costs(separate)})
    assert found.recommendation == expected


def test_pairs_tell_more_than_means() -> None:
    seeds = np.array([1.0, 5.0, 9.0])  # far apart, and always in the same order
    better = seeds - [0.5, 0.6, 0.4]
    given = {SHARED: costs([*seeds]), LEARNT: costs([*better])}
    assert compare(given).recommendation == LEARNT
    shuffled = {SHARED: costs([*seeds]), LEARNT: costs([*better[::-1]])}
    assert compare(shuffled).recommendation == "cannot tell"


def test_every_task_counts_alike_whatever_its_unit() -> None:
    shared = np.array([[1.0, 1_000.0, 1.0], [1.1, 1_010.0, 1.1], [1.0, 1_020.0, 1.0]])
    learnt = shared * [0.2, 1.05, 0.2]
    assert compare({SHARED: shared, LEARNT: learnt}).recommendation == LEARNT


def test_the_reason_has_the_numbers() -> None:
    found = compare({SHARED: costs([1.0, 1.0]), LEARNT: costs([0.4, 0.6])}, "error")
    assert found.reason == (
        "Mean error beside learnt gates: shared bottom +100 % (-26 to +226); 90 % intervals of the "
        "difference over 2 seeds."
    )


@mark.parametrize(
    ("learnt", "shared", "n_undecided", "is_told"),
    [
        ([1.2, 1.3, 1.1], [1.0, 1.1, 0.9], 6, True),  # behind, and most are where they began
        ([0.9, 0.5, 0.97], [1.0, 2.0, 0.5], 6, True),  # ahead within chance: cannot tell
        ([1.2, 1.3, 1.1], [1.0, 1.1, 0.9], 5, False),
        ([0.5, 0.6, 0.4], [1.0, 1.1, 0.9], 6, False),  # they are best as they are
    ],
)
def test_a_comparison_does_not_count_for_gates_that_have_not_settled(
    learnt: list[float], shared: list[float], n_undecided: int, is_told: bool
) -> None:
    gates = np.where(np.arange(10) < n_undecided, 0.5, 0.99).reshape(5, 2)
    given = {LEARNT: costs(learnt), SHARED: costs(shared)}
    found, without = compare(given, "loss", gates), compare(given, "loss")
    told = (
        "Learnt gates have not settled (60 % are undecided), so the comparison does not count "
        "for them: set a larger `allocation_learning_rate`. "
    )
    assert found.reason == (told if is_told else "") + without.reason
    assert found.recommendation == without.recommendation


def test_tasks_that_do_better_another_way_are_named() -> None:
    shared = np.array([[1.0, 1.0, 1.0, 1.0], [1.1, 1.1, 1.1, 1.1], [0.9, 0.9, 0.9, 0.9]])
    separate = shared * [3.0, 3.0, 0.5, np.nan]
    shared[:, 3] = np.nan
    found = compare({SHARED: shared, SEPARATE: separate})
    assert found.recommendation == SHARED
    assert list(found.exceptions) == [2]
    way, behind = found.exceptions[2]
    assert way == SEPARATE
    assert behind.mean == approx(-0.5)


@mark.parametrize(
    ("given", "expected"),
    [
        ({SHARED: costs([1.0]), LEARNT: costs([0.1])}, "1 seed with"),
        ({LEARNT: costs([1.0, 1.0])}, "2 seeds with"),
        ({SHARED: costs([np.nan] * 3), LEARNT: costs([np.nan] * 3)}, "0 seeds with"),
        ({SHARED: costs([1.0, np.inf]), LEARNT: costs([0.1, 0.1])}, "1 seed with"),  # one failed
    ],
)
def test_nothing_is_said_of_too_little(given: dict[str, Any], expected: str) -> None:
    found = compare(given)
    assert found.recommendation == "cannot tell"
    assert expected in found.reason


def test_chance_alone_seldom_finds_a_winner() -> None:
    # Three ways that are alike: the two others lie above 0 by chance in 5 % of comparisons each,
    # and the best of three is picked to compare with, so about 10 to 15 % find another than the
    # simplest; the standard error of a share of 400 is below 2 %.
    random = np.random.default_rng(0)
    n_wrong = 0
    for _ in range(400):
        given = {way: random.normal(10.0, 0.1, (5, 3)) for way in (SHARED, SEPARATE, LEARNT)}
        n_wrong += compare(given).recommendation != SHARED
    assert n_wrong / 400 < 0.2


def test_advice_reads_as_a_list() -> None:
    advice = Advice(recommendation=SHARED, reasons=("It is best.", "b"), next_steps=("Take it.",))
    assert advice.line == "Advice: shared bottom. It is best."
    assert str(advice).splitlines() == [
        *("Advice: shared bottom", "- It is best.", "- b"),
        *("Next:", "- Take it."),
    ]
