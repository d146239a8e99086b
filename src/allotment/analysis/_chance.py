"""What would be found if tasks had nothing in common, to hold against what was found."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from .._schema import Floats

from ._embeddings import cosine_similarity, distinct_groups
from ._families import ROUNDING, family_names, own_is_nearest

N_SHUFFLES = 200
MOST_SETS = 20_000  # of rows; more are not gone through but drawn


def chance_similarity(embeddings: ArrayLike) -> Floats:
    """Returns how alike each two rows are on average if their open gates are anywhere, ``[T, T]``.

    Of rows with shares p and q of their gates open, independently of each other, a share pq is open
    in both, and their cosine similarity is pq / root(pq), the root of pq. So tasks that use most of
    a network look alike whatever they share. Components that all tasks like make rows more alike
    than this, without any two of them being special.

    >>> chance_similarity([[1, 1, 0, 0], [0, 0, 1, 1]]).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    shares: Floats = np.asarray(embeddings, dtype=float).mean(axis=1)
    by_chance: Floats = np.sqrt(np.outer(shares, shares))
    return by_chance


def chance_own_is_nearest(embeddings: Floats, families: Sequence[str]) -> Floats:
    """Returns how often each task's own family is nearest if open gates are anywhere, ``[T]``.

    Tasks with one row keep one row. The mean over some shuffles, the same ones each time.
    """
    shuffled = _shuffled(np.asarray(embeddings, dtype=float))
    found = [own_is_nearest(cosine_similarity(rows), families) for rows in shuffled]
    shares: Floats = np.mean(found, axis=0)
    return shares


def apartness(embeddings: Floats, families: Sequence[str]) -> list[float]:
    """Returns for each family the share of sets of rows that are as alike as its own, or more.

    Of all different rows, other sets are taken that are as large as the family's: a permutation
    test of whether the family lies apart, in which tasks with one row count once. NaN for a family
    with one row, or with all of them.
    """
    rows = np.asarray(embeddings, dtype=float)
    groups = distinct_groups(rows)
    similarity = cosine_similarity(rows[[group[0] for group in groups]])
    found = []
    for name in family_names(families):
        own = np.array([any(families[task] == name for task in group) for group in groups])
        found.append(_share_as_alike(similarity, own))
    return found


def _share_as_alike(similarity: Floats, own: np.ndarray) -> float:
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
