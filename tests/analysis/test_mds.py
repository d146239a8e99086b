import numpy as np
from numpy.testing import assert_allclose
from pytest import approx
from scipy.spatial.distance import pdist

from allotment.analysis import classical_mds, cosine_similarity


def test_two_dimensions_are_shown_as_they_are() -> None:
    angles = np.array([0.0, 0.3, 1.1, 1.5])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # [4, 2], of length 1
    found = classical_mds(cosine_similarity(rows))
    assert_allclose(pdist(found.points), pdist(rows), atol=1e-9)
    assert found.shown == approx(1.0)


def test_distances_in_the_plane_are_never_longer() -> None:
    rows = (np.random.default_rng(0).random((15, 30)) < 0.5).astype(float)
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = classical_mds(cosine_similarity(rows))
    assert (pdist(found.points) <= pdist(directions) + 1e-9).all()
    assert 0 < found.shown < 1
    squares = np.square(pdist(directions)).sum()
    assert found.shown == approx(np.square(pdist(found.points)).sum() / squares)


def test_permuting_tasks_permutes_the_points() -> None:
    draws = np.random.default_rng(1)
    rows = (draws.random((12, 30)) < 0.5).astype(float)
    order = draws.permutation(12)
    before, after = (
        classical_mds(cosine_similarity(rows)),
        classical_mds(cosine_similarity(rows[order])),
    )
    assert_allclose(after.points, before.points[order], atol=1e-9)


def test_tasks_with_equal_rows_are_one_point() -> None:
    found = classical_mds(cosine_similarity(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])))
    assert_allclose(found.points[0], found.points[2], atol=1e-9)
    assert np.linalg.norm(found.points[0] - found.points[1]) == approx(np.sqrt(2))


def test_where_all_are_equal_there_is_nothing_to_show() -> None:
    found = classical_mds(cosine_similarity(np.ones((4, 3))))
    assert_allclose(found.points, 0.0, atol=1e-7)
    assert found.shown == 1.0
    assert classical_mds(np.ones((1, 1))).points.tolist() == [[0.0, 0.0]]
