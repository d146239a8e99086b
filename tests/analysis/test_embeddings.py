import numpy as np
import pytest
from numpy.testing import assert_allclose

from allotment.analysis import (
    cosine_similarity,
    distinct_groups,
    embeddings,
    recovers,
    usage_by_layer,
)
from tests.records.made_up import PAIRS, a_header, a_record, an_outcome


def test_embeddings_are_the_open_gates() -> None:
    assert_allclose(embeddings(a_record(outcome=an_outcome(matrix=PAIRS * 0.5))), PAIRS)


def test_tasks_with_one_row_are_one_group() -> None:
    assert distinct_groups(PAIRS) == [[0, 1], [2, 3]]
    assert distinct_groups(np.eye(3)) == [[0], [1], [2]]
    assert distinct_groups(np.ones((3, 2))) == [[0, 1, 2]]


def test_cosine_by_hand() -> None:
    rows = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    half = 1 / np.sqrt(2)
    assert_allclose(cosine_similarity(rows), [[1, half, 0], [half, 1, 0], [0, 0, 1]], atol=1e-12)


def test_a_task_that_uses_nothing_is_like_its_kind_alone() -> None:
    rows = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    assert_allclose(cosine_similarity(rows), [[1, 1, 0], [1, 1, 0], [0, 0, 1]], atol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (PAIRS, True),
        (1 - PAIRS, True),
        (np.ones((4, 4)), False),  # everything shared: families look alike
        (np.eye(4), False),  # nothing shared: a family has two rows
        (PAIRS[[0, 2, 0, 2]], False),  # the wrong pairs
        (PAIRS[[0, 0, 0, 2]], False),
    ],
)
def test_recovery_needs_equal_rows_inside_and_different_rows_across(
    matrix: np.ndarray, expected: bool
) -> None:
    assert recovers(a_record(outcome=an_outcome(matrix=matrix))) is expected


def test_without_families_recovery_is_unknown() -> None:
    assert recovers(a_record(a_header(families=()))) is None


def test_usage_by_layer() -> None:
    record = a_record(a_header(layer_sizes=(1, 3)))
    assert_allclose(usage_by_layer(record), [2 / 4, 4 / 12])
