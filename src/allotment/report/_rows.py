"""The arrays that pictures of an allocation are drawn from, held to their names."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .._schema import Floats


def checked_rows(
    embeddings: ArrayLike, task_names: Sequence[str], families: Sequence[str] = ()
) -> Floats:
    """Returns the embeddings as an array ``[T, C]``; raises unless they are binary and named."""
    rows = np.asarray(embeddings, dtype=float)
    if rows.ndim != 2 or 0 in rows.shape or not np.isin(rows, (0.0, 1.0)).all():
        entries = np.unique(rows)
        shown = ", ".join(f"{entry:g}" for entry in entries[:4])
        raise ValueError(
            "`embeddings` should be of shape [T, C] with entries 0 and 1. "
            f"Found shape {list(rows.shape)} with entries {shown}{', …' * (len(entries) > 4)}."
        )
    _check_count("task_names", len(task_names), len(rows), "task")
    if families:
        _check_count("families", len(families), len(rows), "task")
    return rows


def checked_layers(
    layer_sizes: Sequence[int], component_names: Sequence[str], n_components: int
) -> tuple[list[int], list[str]]:
    """Returns the size of each layer and the name of each component, made up where not given.

    >>> checked_layers([2, 1], [], 3)
    ([2, 1], ['1', '2', '1'])
    """
    sizes = list(layer_sizes) or [n_components]
    if sum(sizes) != n_components or min(sizes) < 1:
        raise ValueError(
            f"`layer_sizes` should be positive and sum to {n_components}, the number of "
            f"components. Found {sizes}."
        )
    if not component_names:
        return sizes, [str(place + 1) for size in sizes for place in range(size)]
    _check_count("component_names", len(component_names), n_components, "component")
    return sizes, list(component_names)


def _check_count(name: str, n_found: int, n_expected: int, what: str) -> None:
    if n_found != n_expected:
        raise ValueError(
            f"`{name}` should be one for each {what}. Found {n_found} for {n_expected} {what}s."
        )
