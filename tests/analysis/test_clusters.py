import math
from itertools import pairwise

import numpy as np
from numpy.testing import assert_allclose
from pytest import approx, mark, raises
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score, silhouette_score

from allotment._schema import Floats
from allotment.analysis import cluster, cosine_similarity, cut, leaf_order, linkage
from tests.records.made_up import PAIRS


def random_rows(seed: int, n_tasks: int = 12, n_components: int = 40) -> Floats:
    return (np.random.default_rng(seed).random((n_tasks, n_components)) < 0.5).astype(float)


def blocks(sizes: list[int], seed: int = 0) -> tuple[Floats, list[int]]:
    """Groups of tasks around rows that have nothing in common, and the group of each task."""
    draws = np.random.default_rng(seed)
    rows = np.zeros((sum(sizes), 12 * len(sizes)))
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    for task, group in enumerate(groups):
        rows[task, 12 * group : 12 * (group + 1)] = draws.random(12) < 0.8
    return rows, groups


def slow_heights(distance: Floats) -> list[float]:
    """Average linkage from its definition: at each step, join the two nearest clusters."""
    clusters = [[task] for task in range(len(distance))]
    heights = []
    while len(clusters) > 1:
        found = [
            (float(distance[np.ix_(a, b)].mean()), i, j)
            for i, a in enumerate(clusters)
            for j, b in enumerate(clusters)
            if i < j
        ]
        height, i, j = min(found)
        heights.append(height)
        clusters[i] += clusters.pop(j)
    return heights


@mark.parametrize("seed", range(5))
def test_the_tree_is_that_of_average_linkage(seed: int) -> None:
    similarity = cosine_similarity(random_rows(seed))
    tree = linkage(similarity)
    assert_allclose(tree[:, 2], slow_heights(1 - similarity), rtol=0, atol=1e-9)
    for n_clusters in (2, 3, 5):
        other = AgglomerativeClustering(n_clusters, metric="precomputed", linkage="average")
        labels = other.fit(1 - similarity).labels_.tolist()
        assert adjusted_rand_score(cut(tree, n_clusters), labels) == 1.0


def test_clear_groups_are_found_and_their_number_too() -> None:
    rows, groups = blocks([5, 3, 4])
    found = cluster(cosine_similarity(rows))
    assert found.labels == tuple(groups)
    assert found.n_clusters == 3
    assert found.members == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11]]
    assert 0 < found.silhouette < 1


def test_the_silhouette_by_hand() -> None:
    # Two pairs with nothing in common: within 0, across 1, so every task has (1 - 0) / 1.
    found = cluster(cosine_similarity(PAIRS))
    assert (found.labels, found.silhouette) == ((0, 0, 1, 1), 1.0)
    # Distances 0.2 inside the pairs and 0.8 across: each task has (0.8 - 0.2) / 0.8.
    similarity = np.full((4, 4), 0.2)
    similarity[:2, :2] = similarity[2:, 2:] = 0.8
    np.fill_diagonal(similarity, 1.0)
    assert cluster(similarity).silhouette == approx(0.75)


@mark.parametrize("seed", range(5))
def test_permuting_tasks_permutes_the_clusters(seed: int) -> None:
    rows, _ = blocks([4, 4, 3], seed)
    order = np.random.default_rng(seed).permutation(len(rows))
    before, after = cluster(cosine_similarity(rows)), cluster(cosine_similarity(rows[order]))
    assert adjusted_rand_score([before.labels[task] for task in order], after.labels) == 1.0
    assert after.silhouette == approx(before.silhouette)


def test_equal_rows_are_one_cluster_without_a_silhouette() -> None:
    found = cluster(cosine_similarity(np.ones((5, 3))))
    assert found.labels == (0, 0, 0, 0, 0)
    assert math.isnan(found.silhouette)


@mark.parametrize(
    ("rows", "labels"),
    [
        ([[1, 0], [1, 0]], (0, 0)),
        ([[1, 0], [0, 1]], (0, 1)),
        ([[1, 0], [0, 0]], (0, 1)),
        ([[0, 0], [0, 0]], (0, 0)),
    ],
)
def test_two_tasks_belong_together_where_their_rows_are_equal(
    rows: list[list[int]], labels: tuple[int, ...]
) -> None:
    found = cluster(cosine_similarity(np.array(rows, dtype=float)))
    assert found.labels == labels
    assert math.isnan(found.silhouette)


def test_one_task_is_one_cluster() -> None:
    assert cluster(np.ones((1, 1))).labels == (0,)
    assert cut(linkage(np.ones((1, 1))), 3) == (0,)
    assert leaf_order(linkage(np.ones((1, 1)))) == [0]


def test_tasks_that_are_all_equally_unlike_stay_apart() -> None:
    found = cluster(np.eye(5))
    assert found.labels == (0, 1, 2, 3, 4)
    assert math.isnan(found.silhouette)


def test_tasks_that_use_nothing_are_a_cluster_of_their_own() -> None:
    rows = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 0]], dtype=float)
    assert cluster(cosine_similarity(rows)).labels == (0, 1, 0, 1)


def test_a_cut_never_splits_a_tie() -> None:
    rows = np.array([[1, 0, 0]] * 3 + [[0, 1, 0]] * 2 + [[0, 0, 1]], dtype=float)
    tree = linkage(cosine_similarity(rows))
    assert cut(tree, 5) == (0, 0, 0, 1, 1, 2)  # five would have to part equal rows
    assert cut(tree, 2) == (0,) * 6  # all three are joined at one height


def test_ties_by_rounding_are_ties() -> None:
    # 1/sqrt(3) by two ways of computing differs in its last digit.
    similarity = np.eye(3)
    similarity[0, 1] = similarity[1, 0] = 1 / math.sqrt(3)
    similarity[0, 2] = similarity[2, 0] = similarity[1, 2] = similarity[2, 1] = math.sqrt(3) / 3
    similarity[0, 1] += 1e-15
    similarity[1, 0] += 1e-15
    assert cut(linkage(similarity), 2) == (0, 0, 0)


def test_a_cut_has_at_most_the_clusters_asked_for() -> None:
    tree = linkage(cosine_similarity(random_rows(0)))
    numbers = [len(set(cut(tree, n))) for n in range(1, 13)]
    assert numbers[0] == 1
    assert all(found <= asked for asked, found in enumerate(numbers, start=1))
    assert all(first <= second for first, second in pairwise(numbers))


def test_a_cut_into_no_clusters_is_refused() -> None:
    with raises(ValueError, match=r"`n_clusters` should be at least 1. Found `n_clusters = 0`"):
        cut(linkage(np.eye(3)), 0)


def test_the_order_of_leaves_has_like_tasks_side_by_side() -> None:
    rows, groups = blocks([3, 3, 3])
    mixed = [0, 3, 6, 1, 4, 7, 2, 5, 8]
    order = leaf_order(linkage(cosine_similarity(rows[mixed])))
    seen = [groups[mixed[task]] for task in order]
    assert sorted(order) == list(range(9))
    assert sum(a != b for a, b in pairwise(seen)) == 2


def test_of_equal_silhouettes_the_fewest_clusters_are_taken() -> None:
    # Found by trying: its cuts into 2 and into 3 clusters both have 0.5154700538.
    rows = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 1, 1]])
    similarity = cosine_similarity(rows)
    tree, distance = linkage(similarity), 1.0 - similarity
    two, three = (silhouette_score(distance, cut(tree, n), metric="precomputed") for n in (2, 3))
    assert two == approx(three, abs=1e-12)
    assert cluster(similarity).n_clusters == 2


def test_so_many_tasks_that_no_cut_can_be_tried_for_each_are_grouped() -> None:
    rows = np.kron(np.eye(3), np.ones((150, 1)))  # 450 tasks in three groups
    found = cluster(cosine_similarity(rows))
    assert (found.n_clusters, found.silhouette) == (3, 1.0)
