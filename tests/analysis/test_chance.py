import math

import numpy as np
from numpy.testing import assert_allclose
from pytest import MonkeyPatch, approx

from allotment._schema import Floats
from allotment.analysis import _families as families_module
from allotment.analysis import (
    chance_similarity,
    cosine_similarity,
    own_is_nearest,
    permutation_p_values,
)
from allotment.analysis._families import chance_own_is_nearest


def rows_with(n_open: tuple[int, ...], n_components: int, seed: int = 0) -> Floats:
    """Rows with so many open gates, anywhere."""
    draws = np.random.default_rng(seed)
    rows = np.zeros((len(n_open), n_components))
    for row, n in zip(rows, n_open, strict=True):
        row[draws.permutation(n_components)[:n]] = 1.0
    return rows


def test_chance_is_what_independent_rows_have_in_common() -> None:
    draws = [cosine_similarity(rows_with((4, 10, 18), 20, seed)) for seed in range(3_000)]
    off = ~np.eye(3, dtype=bool)
    expected = chance_similarity(rows_with((4, 10, 18), 20))[off]
    assert_allclose(np.mean(draws, axis=0)[off], expected, rtol=0.02)
    assert expected.min() == approx(np.sqrt(0.2 * 0.5))


def test_shuffled_rows_tell_how_often_the_own_family_is_nearest_by_chance() -> None:
    # Two families of two tasks, all rows anywhere: by symmetry the own one is the nearer to a task
    # where its one other member is more alike than the mean of two strangers.
    rows, families = rows_with((10,) * 4, 20, seed=1), ("a", "a", "b", "b")
    by_chance = chance_own_is_nearest(rows, families)
    draws = [cosine_similarity(rows_with((10,) * 4, 20, seed)) for seed in range(2, 1_000)]
    expected = np.mean([own_is_nearest(each, families) for each in draws])
    assert by_chance.mean() == approx(expected, abs=0.07)
    assert 0.2 < expected < 0.6


def test_the_chance_of_shares_is_that_of_shuffled_rows() -> None:
    draws = np.random.default_rng(0)
    rows = draws.dirichlet(np.full(8, 0.5), size=2)
    shuffled = [
        cosine_similarity([draws.permutation(row) for row in rows])[0, 1] for _ in range(4_000)
    ]
    standard_error = np.std(shuffled, ddof=1) / math.sqrt(len(shuffled))
    assert abs(np.mean(shuffled) - chance_similarity(rows)[0, 1]) < 4 * standard_error
    assert chance_similarity([[0.0, 0.0], [1.0, 0.0]])[0].tolist() == [0.0, 0.0]  # uses nothing


def test_tasks_with_one_row_keep_one_row_when_shuffled() -> None:
    rows = rows_with((10, 10, 10), 20, seed=1)[[0, 0, 1, 2]]
    assert_allclose(chance_own_is_nearest(rows, ("a", "a", "b", "b"))[:2], 1.0)


def test_p_is_the_share_of_sets_of_rows_that_are_as_alike_as_a_family() -> None:
    inner = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], [1, 1, 0, 0, 1, 0]], dtype=float)
    other = np.array([[0, 0, 1, 0, 0, 1], [0, 0, 0, 1, 0, 1]], dtype=float)
    found = permutation_p_values(np.concatenate([inner, other]), ("a", "a", "a", "b", "b"))
    assert found == approx([1 / 10, found[1]])  # of ten sets of three rows
    assert found[1] > 1 / 10  # two of the others are as alike as the two of b


def test_tasks_with_one_row_count_once() -> None:
    inner = np.array([[1, 1, 0, 0], [1, 1, 1, 0]], dtype=float)
    rows = np.concatenate([inner, [[0.0, 0.0, 0.0, 1.0]] * 5])
    found = permutation_p_values(rows, ("a", "a", *"bbbbb"))
    assert found[0] == approx(1 / 3)
    assert math.isnan(found[1])  # one row has no likeness among its own
    assert math.isnan(permutation_p_values(inner, ("a", "a"))[0])  # and all of them have no others


def test_sets_are_drawn_where_there_are_too_many(monkeypatch: MonkeyPatch) -> None:
    rows, families = rows_with((4,) * 12, 16), ("a",) * 6 + ("b",) * 6
    (exact, _) = permutation_p_values(rows, families)  # of 924 sets
    monkeypatch.setattr(families_module, "MOST_SETS", 800)
    (drawn, _) = permutation_p_values(rows, families)
    assert drawn != exact
    assert drawn == approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 800))
