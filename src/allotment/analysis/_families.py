"""Similarity and variety inside known families of tasks, and between them, in one run."""

from collections.abc import Sequence

import numpy as np

from .._schema import Floats

from ._embeddings import distinct_groups

ROUNDING = 1e-10  # two similarities that differ by less are equal


def family_names(families: Sequence[str]) -> tuple[str, ...]:
    """Returns each family once, in the order of their first tasks."""
    return tuple(dict.fromkeys(families))


def between_families(similarity: Floats, families: Sequence[str]) -> Floats:
    """Returns the mean similarity of tasks of each two of ``F`` families, shape ``[F, F]``.

    The diagonal is the similarity inside a family, over pairs of different tasks; it is NaN for a
    family of one task.
    """
    check_families(len(similarity), families)
    names = family_names(families)
    found = np.empty((len(names), len(names)))
    for row, column in np.ndindex(found.shape):
        found[row, column] = _mean_where(similarity, families, [(names[row], names[column])])
    return found


def within_and_across(similarity: Floats, families: Sequence[str]) -> tuple[float, float]:
    """Returns the mean similarity over all pairs of tasks of one family, and over all others.

    Either is NaN where there is no such pair.

    >>> import numpy as np
    >>> similarity = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.4], [0.2, 0.4, 1.0]])
    >>> [round(mean, 3) for mean in within_and_across(similarity, ["a", "a", "b"])]
    [0.8, 0.3]
    """
    check_families(len(similarity), families)
    names = family_names(families)
    inside = [(name, name) for name in names]
    outside = [(name, other) for name in names for other in names if name != other]
    return _mean_where(similarity, families, inside), _mean_where(similarity, families, outside)


def own_is_nearest(similarity: Floats, families: Sequence[str]) -> Floats:
    """Returns for each task whether its own family is nearest to it, 1 or 0, shape ``[T]``.

    It is where the mean similarity to the others of its family is larger than that to any other
    family. NaN for a task without another of its family.

    >>> import numpy as np
    >>> similarity = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.9], [0.2, 0.9, 1.0]])
    >>> own_is_nearest(similarity, ["a", "a", "b"]).tolist()
    [1.0, 0.0, nan]
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
    """Returns how many different rows the tasks of each family have."""
    check_families(len(embeddings), families)
    member = np.array(families)
    return [len(distinct_groups(embeddings[member == name])) for name in family_names(families)]


def check_families(n_tasks: int, families: Sequence[str]) -> None:
    """Raises unless there is a family for each task."""
    if len(families) != n_tasks:
        raise ValueError(
            f"`families` should be one for each task. Found {len(families)} for {n_tasks} tasks."
        )


def _mean_where(
    similarity: Floats, families: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> float:
    """Returns the mean over pairs of different tasks whose families are one of ``pairs``."""
    member = np.array(families)
    chosen = np.zeros(similarity.shape, dtype=bool)
    for row, column in pairs:
        chosen |= np.outer(member == row, member == column)
    np.fill_diagonal(chosen, False)
    return float(similarity[chosen].mean()) if chosen.any() else float("nan")
