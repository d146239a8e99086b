"""Tasks as points in a plane, named at its sides."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from .._schema import Floats
from ..analysis import cosine_similarity, distinct_groups, plane

from ._drawing import INK, drawing, families_key, family_style, new_figure
from ._rows import checked_rows

_LINE = 0.155  # inches for a name
_SIDE = 3.4  # inches of the plane
_GAP = 0.6  # of a line, between two groups of names


def plane_map(
    embeddings: ArrayLike, task_names: Sequence[str], *, families: Sequence[str] = ()
) -> Figure:
    """Returns the tasks in the plane of the classical scaling of their embeddings.

    Tasks with one embedding are one point, larger the more they are, and their names stand together
    at the side that the point is nearer to, so that no two names meet.

    Args:
        embeddings: Who uses what, 0 or 1, shape ``[T, C]``.
        task_names: A name for each row.
        families: The group each task is known to belong to, shown by colour and marker.
    """
    rows = checked_rows(embeddings, task_names, families)
    groups = distinct_groups(rows)
    found = plane(cosine_similarity(rows))
    points = found.points[[group[0] for group in groups]]  # [G, 2]
    left, right = _sides(points, groups)
    n_lines = max(_n_lines(left, groups), _n_lines(right, groups))
    height = max(_SIDE, _LINE * n_lines)
    room = 0.3 + 0.07 * max(map(len, task_names))
    with drawing():
        figure = new_figure(_SIDE + 2 * room, height + 0.7)
        axes = figure.subplots()
        limit = 1.15 * max(float(np.abs(points).max()), 0.05)
        tall = limit * height / _SIDE  # one unit is as long upwards as sideways
        axes.set(xlim=(-limit, limit), ylim=(-tall, tall), aspect="equal")
        for group, point in zip(groups, points, strict=True):
            style = family_style(families, group[0])
            size = 30 * math.sqrt(len(group))
            axes.scatter([point[0]], [point[1]], s=size, zorder=3, **style)
        line = 2 * limit * _LINE / _SIDE  # in the plane's own unit
        names = [(name, family_style(families, task)) for task, name in enumerate(task_names)]
        _name_side(axes, names, groups, points, left, line, -limit)
        _name_side(axes, names, groups, points, right, line, limit)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color("#80808080")
        axes.set_xlabel(f"{100 * found.shown:.0f} % of the squared distances are in this plane")
        families_key(figure, families)
    return figure


def _sides(points: Floats, groups: list[list[int]]) -> tuple[list[int], list[int]]:
    """Returns the groups named at the left and at the right, each from top to bottom."""
    half = sum(map(len, groups)) / 2
    left: list[int] = []
    right: list[int] = []
    n_left = 0
    for place in np.argsort(points[:, 0], kind="stable").tolist():
        if n_left + len(groups[place]) / 2 <= half:
            left.append(place)
            n_left += len(groups[place])
        else:
            right.append(place)

    def from_top(place: int) -> float:
        return -float(points[place, 1])

    return sorted(left, key=from_top), sorted(right, key=from_top)


def _n_lines(side: list[int], groups: list[list[int]]) -> float:
    return sum(len(groups[place]) + _GAP for place in side)


def _name_side(
    axes: Axes,
    names: list[tuple[str, dict[str, Any]]],
    groups: list[list[int]],
    points: Floats,
    side: list[int],
    line: float,
    edge: float,
) -> None:
    """Writes the names of the groups at one side, and a thread from each group to its point.

    ``names`` holds each task's name and its look.
    """
    outward = math.copysign(1.0, edge)
    top = line * (_n_lines(side, groups) - _GAP) / 2
    for place in side:
        n_names = len(groups[place])
        middle = top - line * n_names / 2
        for number, task in enumerate(groups[place]):
            name, style = names[task]
            axes.text(
                edge * 1.06,
                top - line * (number + 0.5),
                name,
                fontsize=8,
                ha="left" if outward > 0 else "right",
                va="center",
                color=style["color"],
            )
        axes.plot(
            [points[place, 0], edge, edge * 1.04],
            [points[place, 1], middle, middle],
            color=INK,
            linewidth=0.4,
            alpha=0.5,
            clip_on=False,
        )
        if n_names > 1:
            ends = [middle - 0.45 * line * n_names, middle + 0.45 * line * n_names]
            axes.plot([edge * 1.04] * 2, ends, color=INK, linewidth=0.8, clip_on=False)
        top -= line * (n_names + _GAP)
