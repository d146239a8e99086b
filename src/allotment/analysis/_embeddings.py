"""Task embeddings: the rows of the allocation, and which tasks share one."""

import numpy as np
from numpy.typing import ArrayLike

from .._schema import Floats
from ..records import RunRecord


def embeddings(record: RunRecord) -> Floats:
    """Returns which components each task uses at the end, 0 or 1, shape ``[T, C]``."""
    return (record.outcome.matrix > 0).astype(np.float64)


def distinct_groups(embeddings: ArrayLike) -> list[list[int]]:
    """Returns the tasks that share a row, group by group, in the order of their first task.

    >>> import numpy as np
    >>> distinct_groups(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    [[0, 2], [1]]
    """
    groups: dict[tuple[float, ...], list[int]] = {}
    for task, row in enumerate(np.asarray(embeddings).tolist()):
        groups.setdefault(tuple(row), []).append(task)
    return list(groups.values())


def cosine_similarity(embeddings: ArrayLike) -> Floats:
    """Returns the cosine of the angle between each two rows, shape ``[T, T]``.

    A task that uses nothing has a row of zeros and no angle: it counts as like (1) another such
    task and itself, and as unlike (0) every task that uses something.
    """
    rows: Floats = np.asarray(embeddings, dtype=float)
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


def is_uniform(record: RunRecord) -> bool | None:
    """Returns whether all tasks of each family have the same row; None without families."""
    families = record.header.families
    if not families:
        return None
    rows = {(family, tuple(row)) for family, row in zip(families, embeddings(record), strict=True)}
    return len(rows) == len(set(families))


def recovers(record: RunRecord) -> bool | None:
    """Returns whether the allocation shows the families of the tasks.

    It does when all tasks of a family have the same row and different families have different rows.
    None where the record names no families.
    """
    uniform = is_uniform(record)
    n_different = len(distinct_groups(embeddings(record)))
    return uniform and n_different == len(set(record.header.families))
