"""Task embeddings: the rows of the allocation, how alike they are, and a plane to see them in."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._schema import Floats
from ..records import RunRecord
from ._arguments import as_rows, as_similarity, of_runs

_NOTHING = 1e-12  # a squared distance that is left by rounding


@of_runs
def embeddings(record: RunRecord) -> Floats:
    """Returns which components each task uses at the end, shape ``[T, C]``.

    Entries are 0 or 1, or a task's shares of components where the allocation is not binary.
    """
    matrix = record.outcome.matrix
    return (matrix > 0).astype(np.float64) if record.header.is_binary else matrix.astype(np.float64)


def distinct_groups(embeddings: ArrayLike) -> list[list[int]]:
    """Returns the tasks that share a row, group by group, in the order of their first task.

    >>> import numpy as np
    >>> distinct_groups(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    [[0, 2], [1]]
    """
    groups: dict[tuple[float, ...], list[int]] = {}
    for task, row in enumerate(as_rows(embeddings).tolist()):
        groups.setdefault(tuple(row), []).append(task)
    return list(groups.values())


def cosine_similarity(embeddings: ArrayLike) -> Floats:
    """Returns the cosine of the angle between each two rows, shape ``[T, T]``.

    A task that uses nothing has a row of zeros and no angle: it counts as like (1) another such
    task and itself, and as unlike (0) every task that uses something. Clusters of such tasks say
    nothing of what tasks have in common; `Outcome.dead` names them.

    >>> import numpy as np
    >>> from allotment.analysis import cosine_similarity
    >>> cosine_similarity(np.array([[1, 1], [1, 0], [0, 0]])).round(2)
    array([[1.  , 0.71, 0.  ],
           [0.71, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    rows = as_rows(embeddings)
    products = rows @ rows.T  # [T, T]
    squares = np.diagonal(products)
    empty = squares == 0
    # The root of a product, not a product of roots: equal rows then give exactly 1.
    similarity = products / np.sqrt(
        np.where(np.outer(~empty, ~empty), np.outer(squares, squares), 1)
    )
    similarity[np.ix_(empty, empty)] = 1.0
    clipped: Floats = np.clip(similarity, -1.0, 1.0)
    return clipped


@dataclass(frozen=True, kw_only=True)
class MDS:
    """A point for each task, and how much of the differences between tasks it shows."""

    points: Floats  # [T, 2]
    shown: float  # share of the squared distances, 0 to 1; 1 where there is nothing to show


def classical_mds(similarity: Floats) -> MDS:
    """Returns the classical multidimensional scaling (Torgerson's) to two dimensions.

    The distance of two tasks is that of their embeddings once these have length 1, whose square is
    2 - 2 cos; distances in the plane are never longer. Nothing is drawn at random: of the two
    mirror images of an axis, the one whose farthest point is at its positive end is taken.

    >>> import numpy as np
    >>> from allotment.analysis import classical_mds
    >>> classical_mds(np.array([[1.0, 0.5], [0.5, 1.0]])).shown  # on a plane
    1.0
    """
    squares = 2.0 - 2.0 * as_similarity(similarity)
    n_tasks = len(squares)
    centring = np.eye(n_tasks) - 1.0 / n_tasks
    products = -0.5 * centring @ squares @ centring
    values, vectors = np.linalg.eigh((products + products.T) / 2)  # in rising order
    values = np.where(values > _NOTHING, values, 0.0)
    top = values[::-1][:2]
    points = np.zeros((n_tasks, 2))
    points[:, : len(top)] = vectors[:, ::-1][:, :2] * np.sqrt(top)
    farthest = np.abs(points).round(8).argmax(axis=0)  # rounded: of a tie the first is taken
    points *= np.where(points[farthest, [0, 1]] < 0, -1.0, 1.0)
    total = values.sum()
    return MDS(points=points, shown=float(top.sum() / total) if total else 1.0)
