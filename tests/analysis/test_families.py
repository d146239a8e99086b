import math

import numpy as np
from numpy.testing import assert_allclose
from pytest import approx, raises

from allotment.analysis import (
    between_families,
    cosine_similarity,
    distinct_by_family,
    family_names,
    own_is_nearest,
)
from allotment.analysis._families import within_and_across

H = 1 / math.sqrt(2)
# Two families of two tasks. Cosines by hand: 0-1 H, 0-2 0, 0-3 H, 1-2 H, 1-3 1/2, 2-3 0.
ROWS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 0, 1]], dtype=float)
FAMILIES = ("a", "a", "b", "b")


def test_within_and_across_by_hand() -> None:
    within, across = within_and_across(cosine_similarity(ROWS), FAMILIES)
    assert within == approx((H + 0) / 2)
    assert across == approx((0 + H + H + 1 / 2) / 4)


def test_similarity_between_families_by_hand() -> None:
    found = between_families(cosine_similarity(ROWS), FAMILIES)
    across = (0 + H + H + 1 / 2) / 4
    assert_allclose(found, [[H, across], [across, 0]], atol=1e-12)


def test_a_family_of_one_task_has_no_similarity_within() -> None:
    found = between_families(cosine_similarity(ROWS), ("a", "b", "b", "b"))
    assert math.isnan(found[0, 0])
    assert found[0, 1] == found[1, 0] == approx((H + 0 + H) / 3)
    within, across = within_and_across(np.eye(2), ("a", "b"))
    assert math.isnan(within)
    assert across == 0.0
    within, across = within_and_across(np.eye(2), ("a", "a"))
    assert within == 0.0
    assert math.isnan(across)


def test_families_may_be_scattered_over_the_tasks() -> None:
    order = [0, 2, 1, 3]
    families = tuple(FAMILIES[task] for task in order)
    assert_allclose(
        between_families(cosine_similarity(ROWS[order]), families),
        between_families(cosine_similarity(ROWS), FAMILIES),
    )
    assert family_names(families) == ("a", "b")


def test_distinct_rows_are_counted_in_each_family() -> None:
    rows = np.array([[1, 0], [1, 0], [0, 1], [1, 0], [1, 1]], dtype=float)
    assert distinct_by_family(rows, ("a", "a", "b", "b", "b")) == [1, 3]


def test_a_family_for_each_task_is_asked_for() -> None:
    with raises(ValueError, match=r"`families` should be one for each task. Found 3 for 4 tasks"):
        between_families(cosine_similarity(ROWS), ("a", "a", "b"))


def test_the_nearest_family_by_hand() -> None:
    # Own and other: 0 has H and (0 + H) / 2, 1 has H and (H + 1/2) / 2, 2 has 0 and (0 + H) / 2,
    # 3 has 0 and (H + 1/2) / 2.
    assert own_is_nearest(cosine_similarity(ROWS), FAMILIES).tolist() == [1, 1, 0, 0]


def test_a_tie_is_not_nearest_and_a_task_alone_has_no_family() -> None:
    assert own_is_nearest(np.ones((4, 4)), FAMILIES).tolist() == [0, 0, 0, 0]
    third = 3 / math.sqrt(6 * 18), 1 / math.sqrt(6 * 2)  # equal but for the last bit
    similarity = np.array([[1.0, max(third), min(third)], [0.5, 1.0, 0.4], [0.5, 0.4, 1.0]])
    found = own_is_nearest(similarity, ("a", "a", "b"))
    assert found[:2].tolist() == [0, 1]
    assert math.isnan(found[2])
