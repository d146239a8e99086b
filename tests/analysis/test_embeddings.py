from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from allotment.analysis import cosine_similarity, distinct_groups, embeddings, used_shares
from allotment.analysis._measure import recovers
from tests.records.made_up import PAIRS, a_header, a_record, an_outcome


def test_embeddings_are_the_open_gates() -> None:
    assert_allclose(embeddings(a_record(outcome=an_outcome(matrix=PAIRS * 0.5))), PAIRS)


def test_shares_of_components_are_embeddings_as_they_are() -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(4), size=4)
    record = a_record(a_header(is_binary=False), an_outcome(matrix=shares))
    assert_allclose(embeddings(record), shares)
    assert recovers(record) is None  # rows of shares are never equal


def test_the_effective_share_is_the_share_of_gates_where_all_weights_are_equal() -> None:
    gates = np.array([[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=float)
    header = a_header(layer_sizes=(2, 2))
    found = used_shares(a_record(header, an_outcome(matrix=gates)))
    assert_allclose(found, [2 / 4, 1, 1 / 4, 0])
    soft = replace(header, is_binary=False)
    assert_allclose(used_shares(a_record(soft, an_outcome(matrix=0.3 * gates))), found)


def test_the_effective_share_by_hand() -> None:
    # Shares 3/4 and 1/4: exp(-(3/4 ln 3/4 + 1/4 ln 1/4)) = 4 / 27 ** (1/4) components of 4.
    shares = np.array([[0.75, 0.25, 0.0, 0.0]] * 4)
    record = a_record(a_header(is_binary=False), an_outcome(matrix=shares))
    assert_allclose(used_shares(record), 27**-0.25)


def test_tasks_with_one_row_are_one_group() -> None:
    assert distinct_groups(PAIRS) == [[0, 1], [2, 3]]
    assert distinct_groups(np.eye(3)) == [[0], [1], [2]]
    assert distinct_groups(np.ones((3, 2))) == [[0, 1, 2]]


def test_rows_may_be_lists_or_tensors() -> None:
    for rows in (PAIRS.astype(int).tolist(), torch.as_tensor(PAIRS)):
        assert distinct_groups(rows) == [[0, 1], [2, 3]]
        assert_allclose(cosine_similarity(rows), cosine_similarity(PAIRS))


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


def test_equal_rows_are_exactly_alike() -> None:
    # Lengths whose roots are not exact: 3, 5, 6, 7 open gates.
    rows = np.array([[column < n for column in range(7)] for n in (3, 5, 6, 7)], dtype=float)
    twice = cosine_similarity(np.concatenate([rows, rows]))
    assert (twice[:4, 4:].diagonal() == 1.0).all()
    assert (np.diagonal(twice) == 1.0).all()
    assert (twice == twice.T).all()


def test_permuting_tasks_permutes_the_similarity() -> None:
    draws = np.random.default_rng(0)
    rows = (draws.random((12, 20)) < 0.5).astype(float)
    order = draws.permutation(12)
    expected = cosine_similarity(rows)[np.ix_(order, order)]
    assert_allclose(cosine_similarity(rows[order]), expected, rtol=0, atol=1e-12)
