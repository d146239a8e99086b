"""Tasks grouped by how alike their embeddings are."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform
from sklearn.metrics import silhouette_score

from .._checks import check_count, numbers
from .._schema import Floats
from ._arguments import as_similarity

_DIGITS = 10  # of a height in the tree: distances that differ by rounding alone are a tie

_MOST_CLUSTERS = 200  # that cuts of the tree are tried for; each takes T * T numbers


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """Which tasks belong together, and how clearly."""

    labels: tuple[int, ...]  # the cluster of each task, numbered in the order of their first tasks
    silhouette: float  # mean over tasks, -1 to 1; NaN where it is undefined

    @property
    def n_clusters(self) -> int:
        return len(set(self.labels))

    @property
    def members(self) -> list[list[int]]:
        labels = np.array(self.labels)
        return [np.flatnonzero(labels == label).tolist() for label in range(self.n_clusters)]


def linkage(similarity: Floats) -> Floats:
    """Returns the tree of average linkage on cosine distance, 1 less the similarity.

    Its shape is ``[T - 1, 4]``, a row for each merge, as SciPy writes it: the two clusters, their
    distance, and the number of tasks in both.

    >>> import numpy as np
    >>> linkage(np.array([[1.0, 0.8], [0.8, 1.0]])).round(1)
    array([[0. , 1. , 0.2, 2. ]])
    """
    similarity = as_similarity(similarity)
    if len(similarity) < 2:
        return np.zeros((0, 4))
    tree = hierarchy.linkage(squareform(1.0 - similarity, checks=False), method="average")
    tree[:, 2] = tree[:, 2].round(_DIGITS)
    return np.asarray(tree)


def leaf_order(tree: Floats) -> list[int]:
    """Returns the tasks in the order in which the tree has them side by side.

    >>> import numpy as np
    >>> leaf_order(linkage(np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]])))
    [1, 0, 2]
    """
    return hierarchy.leaves_list(tree).tolist() if len(tree) else [0]


def cut(tree: Floats, n_clusters: int) -> tuple[int, ...]:
    """Returns the cluster of each task where the tree is cut into at most ``n_clusters``.

    Merges at one height are all made or none, so tasks with equal rows are never apart and a tie
    may leave fewer clusters than asked for.

    >>> import numpy as np
    >>> cut(linkage(np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]])), 2)
    (0, 1, 0)

    Args:
        tree: As `linkage` returns it.
        n_clusters: Into how many clusters.
    """
    check_count("n_clusters", n_clusters)
    tree = numbers("tree", tree)
    if tree.ndim != 2 or (len(tree) and not hierarchy.is_valid_linkage(tree)):
        raise ValueError(
            f"`tree` should be one that `linkage` gave. Found shape {list(tree.shape)}."
        )
    if not len(tree):
        return (0,)
    return numbered(hierarchy.fcluster(tree, n_clusters, criterion="maxclust").tolist())


def cluster(similarity: Floats) -> Clustering:
    """Returns the clusters at the cut of the tree with the largest mean silhouette.

    The silhouette compares cuts into 2 to T - 1 clusters, 200 at most; of equal ones the fewest
    clusters are taken. Where the tree has no such cut (all rows equal, two tasks, or all tasks
    equally unlike) it is undefined, and the clusters are the groups of tasks with equal rows. One
    cluster of tasks with different rows is therefore never the answer.

    >>> import numpy as np
    >>> from allotment.analysis import cluster, cosine_similarity
    >>> cluster(cosine_similarity(np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]))).members
    [[0, 1], [2]]
    """
    similarity = as_similarity(similarity)
    distance = 1.0 - similarity
    tree = linkage(similarity)
    n_tasks = len(similarity)
    cuts = dict.fromkeys(cut(tree, n) for n in range(2, min(n_tasks, _MOST_CLUSTERS + 1)))
    found = [
        Clustering(
            labels=labels,
            silhouette=float(silhouette_score(distance, labels, metric="precomputed")),
        )
        for labels in cuts
        if max(labels) > 0
    ]
    if found:
        return max(found, key=lambda each: (round(each.silhouette, _DIGITS), -each.n_clusters))
    apart = [int(np.argmax(row <= 10.0**-_DIGITS)) for row in distance]  # the first task like it
    return Clustering(labels=numbered(apart), silhouette=math.nan)


def numbered(labels: Sequence[Hashable]) -> tuple[int, ...]:
    """Returns the labels as numbers in the order in which they first stand."""
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(label, len(numbers)) for label in labels)
