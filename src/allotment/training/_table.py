"""Numbers of each task as lines of text."""

from collections.abc import Iterable, Sequence

import numpy as np

from .._schema import Floats


def table(names: Sequence[str], columns: Iterable[tuple[str, Floats]]) -> list[str]:
    """Returns the lines of a table: a row for each task, and numbers below their headings.

    >>> table(["a", "b"], [("loss", np.array([0.5, np.nan]))])
    ['task  loss', 'a      0.5', 'b        –']
    """
    found = [_aligned(["task", *names], "<")]
    found += [_aligned([head, *map(_number, values)], ">") for head, values in columns]
    return ["  ".join(cells) for cells in zip(*found, strict=True)]


def _aligned(cells: Sequence[str], side: str) -> list[str]:
    """Returns the cells of a column in one width."""
    width = max(map(len, cells))
    return [f"{cell:{side}{width}}" for cell in cells]


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.4g}"
