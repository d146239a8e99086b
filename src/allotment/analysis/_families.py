"""Known families of tasks in one run: how alike they are, and what chance would give."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from .._schema import Floats
from ._embeddings import cosine_similarity, distinct_groups

ROUNDING = 1e-10  # two similarities that differ by less are equal
N_SHUFFLES = 200
MOST_SETS = 20_000  # of rows; more are not gone through but drawn


def family_names(families: Sequence[str]) -> tuple[str, ...]:
    """Returns each family once, in the order of their first tasks.

    >>> family_names(["b", "a", "b"])
    ('b', 'a')
    """
    return tuple(dict.fromkeys(families))


def between_families(similarity: Floats, families: Sequence[str]) -> Floats:
    """Returns the mean similarity of tasks of each two of ``F`` families, shape ``[F, F]``.

    The diagonal is the similarity inside a family, over pairs of different tasks; it is NaN for a
    family of one task.

    >>> import numpy as np
    >>> from allotment.analysis import between_families
    >>> similarity = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 1.0]])
    >>> between_families(similarity, ["a", "a", "b"])
    array([[0.8, 0.2],
           [0.2, nan]])

    Args:
        similarity: Of the tasks, ``[T, T]``.
        families: The family of each task.
    """
    check_families(len(similarity), families)
    member = [np.array(families) == name for name in family_names(families)]  # F of [T]
    return np.array([[_mean_where(similarity, np.outer(a, b)) for b in member] for a in member])


def within_and_across(similarity: Floats, families: Sequence[str]) -> tuple[float, float]:
    """Returns the mean similarity over all pairs of tasks of one family, and over all others.

    Either is NaN where there is no such pair.

    >>> import numpy as np
    >>> similarity = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.4], [0.2, 0.4, 1.0]])
    >>> [round(mean, 3) for mean in within_and_across(similarity, ["a", "a", "b"])]
    [0.8, 0.3]
    """
    check_families(len(similarity), families)
    member = np.array(families)
    are_one = member[:, None] == member  # [T, T]
    return _mean_where(similarity, are_one), _mean_where(similarity, ~are_one)


def own_is_nearest(similarity: Floats, families: Sequence[str]) -> Floats:
    """Returns for each task whether its own family is nearest to it, 1 or 0, shape ``[T]``.

    It is where the mean similarity to the others of its family is larger than that to any other
    family. NaN for a task without another of its family.

    >>> import numpy as np
    >>> similarity = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.9], [0.2, 0.9, 1.0]])
    >>> own_is_nearest(similarity, ["a", "a", "b"]).tolist()
    [1.0, 0.0, nan]

    Args:
        similarity: Of the tasks, ``[T, T]``.
        families: The family of each task.
    """
    check_families(len(similarity), families)
    names = family_names(families)
    member = np.array([[family == name for name in names] for family in families], dtype=float)
    sizes = member.sum(axis=0) - member  # [T, F], without the task itself
    totals = similarity @ member - np.diagonal(similarity)[:, None] * member
    means = np.where(sizes > 0, totals / np.maximum(sizes, 1), np.nan)  # [T, F]
    own = means[member == 1]
    others = np.where(member == 1, -np.inf, means).max(axis=1)
    return np.where(np.isnan(own), np.nan, own > others + ROUNDING)


def distinct_by_family(embeddings: Floats, families: Sequence[str]) -> list[int]:
    """Returns how many different rows the tasks of each family have.

    >>> import numpy as np
    >>> distinct_by_family(np.array([[1, 0], [1, 0], [0, 1]]), ["a", "a", "b"])
    [1, 1]

    Args:
        embeddings: Which components each task uses, ``[T, C]``.
        families: The family of each task.
    """
    check_families(len(embeddings), families)
    member = np.array(families)
    return [len(distinct_groups(embeddings[member == name])) for name in family_names(families)]


def chance_similarity(embeddings: ArrayLike) -> Floats:
    """Returns how alike each two rows are on average if their entries are anywhere, ``[T, T]``.

    The product of two shuffled rows of ``C`` entries is the product of their sums over ``C``. Of
    gates, of which shares p and q are open, the cosine is then the root of pq: tasks that use most
    of a network look alike whatever they share. Components that all tasks like make rows more
    alike than this, without any two of them being special.

    >>> chance_similarity([[1, 1, 0, 0], [0, 0, 1, 1]]).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    rows: Floats = np.asarray(embeddings, dtype=float)
    squares = np.square(rows).sum(axis=1) * rows.shape[1]
    shares = np.square(rows.sum(axis=1)) / np.where(squares > 0, squares, 1.0)  # [T], p of gates
    by_chance: Floats = np.sqrt(np.outer(shares, shares))
    return by_chance


def chance_own_is_nearest(embeddings: Floats, families: Sequence[str]) -> Floats:
    """Returns how often each task's own family is nearest if entries are anywhere, ``[T]``.

    Tasks with one row keep one row. The mean over some shuffles, the same ones each time.
    """
    shuffled = _shuffled(np.asarray(embeddings, dtype=float))
    found = [own_is_nearest(cosine_similarity(rows), families) for rows in shuffled]
    shares: Floats = np.mean(found, axis=0)
    return shares


def permutation_p_values(embeddings: Floats, families: Sequence[str]) -> list[float]:
    """Returns for each family the p-value of a permutation test of whether it lies apart.

    It is the share of sets of different rows, as many as the family has, that are as alike as the
    family's or more; tasks with one row count once. NaN for a family with one row, or with all of
    them.

    >>> import numpy as np
    >>> rows = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]])
    >>> [round(p, 2) for p in permutation_p_values(rows, ["a", "a", "b", "b"])]
    [nan, 0.33]

    Args:
        embeddings: Which components each task uses, ``[T, C]``.
        families: The family of each task.
    """
    rows = np.asarray(embeddings, dtype=float)
    groups = distinct_groups(rows)
    similarity = cosine_similarity(rows[[group[0] for group in groups]])
    found = []
    for name in family_names(families):
        own = np.array([any(families[task] == name for task in group) for group in groups])
        found.append(_p_value(similarity, own))
    return found


def check_families(n_tasks: int, families: Sequence[str]) -> None:
    """Raises unless there is a family for each task."""
    if len(families) != n_tasks:
        raise ValueError(
            f"`families` should be one for each task. Found {len(families)} for {n_tasks} tasks."
        )


def _mean_where(similarity: Floats, chosen: np.ndarray) -> float:
    """Returns the mean over pairs of different tasks that are ``chosen``; NaN for none."""
    pairs = chosen & ~np.eye(len(similarity), dtype=bool)
    return float(similarity[pairs].mean()) if pairs.any() else float("nan")


def _p_value(similarity: Floats, own: np.ndarray) -> float:
    n, size = len(own), int(own.sum())
    if not 1 < size < n:
        return float("nan")
    if comb(n, size) <= MOST_SETS:
        sets = np.zeros((comb(n, size), n))
        for place, chosen in enumerate(combinations(range(n), size)):
            sets[place, list(chosen)] = 1.0
    else:
        draws = np.random.default_rng(0).random((MOST_SETS, n))
        # The family's own set is one of those that could be drawn, so p is never 0.
        sets = np.concatenate([own[None, :], draws.argsort(axis=1).argsort(axis=1) < size])
    alike = ((sets @ similarity) * sets).sum(axis=1)
    return float((alike >= own @ similarity @ own - ROUNDING).mean())


def _shuffled(rows: Floats) -> Iterator[Floats]:
    """Yields rows whose gates are in another order, one order for all tasks that share a row."""
    draws = np.random.default_rng(0)
    groups = distinct_groups(rows)
    for _ in range(N_SHUFFLES):
        moved = np.empty_like(rows)
        for group in groups:
            moved[group] = draws.permutation(rows[group[0]])
        yield moved
