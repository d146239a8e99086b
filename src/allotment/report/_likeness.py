"""Tasks by how alike their embeddings are: as a tree, and as points of an MDS."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import dendrogram

from .._schema import Floats
from ..analysis import classical_mds, cluster, cosine_similarity, distinct_groups, linkage
from ._drawing import (
    COLOURS,
    TEXT,
    checked_rows,
    drawing,
    families_key,
    family_style,
    new_figure,
    plain_axes,
)

_TREE_LINE, _LINE = 0.17, 0.155  # inches for a name, in the tree and beside the plane
_STEP = 10.0  # between two leaves, in SciPy's coordinates, the first of which is at half a step
_SIDE = 3.4  # inches of the plane
_GAP = 0.6  # of a line, between two groups of names


def task_tree(
    embeddings: ArrayLike, task_names: Sequence[str], *, families: Sequence[str] = ()
) -> Figure:
    """Returns the tree of average linkage on cosine distance, a line for each of several tasks.

    A dashed line cuts it into the clusters that the silhouette chose.

    Args:
        embeddings: Who uses what, shape ``[T, C]``.
        task_names: A name for each row.
        families: The group each task is known to belong to, shown by the colour of its name.
    """
    similarity = cosine_similarity(checked_rows(embeddings, task_names, families))
    if len(similarity) < 2:
        raise ValueError("`embeddings` should be of at least 2 tasks. Found 1.")
    tree = linkage(similarity)
    drawn = dendrogram(tree, no_plot=True)
    n_tasks = len(task_names)
    with drawing():
        figure = new_figure(3.6 + 0.075 * max(map(len, task_names)), 0.9 + _TREE_LINE * n_tasks)
        axes = figure.subplots()
        paths = [
            list(zip(heights, places, strict=True))
            for places, heights in zip(drawn["icoord"], drawn["dcoord"], strict=True)
        ]
        axes.add_collection(LineCollection(paths, colors=COLOURS[0], linewidths=1.2))
        height = _cut_height(tree, cluster(similarity).n_clusters)
        axes.axvline(height, color=TEXT, linestyle="--", linewidth=0.8)
        places = [_STEP * (place + 0.5) for place in range(n_tasks)]
        names = [task_names[task] for task in drawn["leaves"]]
        axes.set_yticks(places, names, fontsize=8)
        for label, task in zip(axes.get_yticklabels(), drawn["leaves"], strict=True):
            label.set_color(family_style(families, task)["color"])
        right = 1.05 * max(float(tree[:, 2].max()), 0.05)
        axes.set(ylim=(_STEP * n_tasks, 0.0), xlim=(-0.01 * right, right))
        axes.set_xlabel("cosine distance at which clusters are joined")
        axes.tick_params(axis="y", length=0)
        plain_axes(axes)
        families_key(figure, families)
    return figure


def _cut_height(tree: Floats, n_clusters: int) -> float:
    """Returns a height between the last merge that leaves these clusters and the next."""
    heights: list[float] = [0.0, *tree[:, 2].tolist()]
    below = heights[len(heights) - n_clusters]
    above = heights[len(heights) - n_clusters + 1] if n_clusters > 1 else 1.05 * below + 0.04
    return (below + above) / 2


class _Group(NamedTuple):
    """Tasks with one embedding, and where they are."""

    tasks: list[int]
    x: float
    y: float


def mds_map(
    embeddings: ArrayLike, task_names: Sequence[str], *, families: Sequence[str] = ()
) -> Figure:
    """Returns the tasks in the plane of a classical multidimensional scaling (MDS).

    Tasks with one embedding are one point, larger the more they are, and their names stand together
    at the side that the point is nearer to, so that no two names meet.

    Args:
        embeddings: Who uses what, shape ``[T, C]``.
        task_names: A name for each row.
        families: The group each task is known to belong to, shown by colour and marker.
    """
    rows = checked_rows(embeddings, task_names, families)
    found = classical_mds(cosine_similarity(rows))
    groups = [_Group(tasks, *found.points[tasks[0]].tolist()) for tasks in distinct_groups(rows)]
    left, right = _sides(groups)
    height = max(_SIDE, _LINE * _n_lines(left), _LINE * _n_lines(right))
    room = 0.3 + 0.07 * max(map(len, task_names))
    with drawing():
        figure = new_figure(_SIDE + 2 * room, height + 0.7)
        axes = figure.subplots()
        limit = 1.15 * max(float(np.abs(found.points).max()), 0.05)
        tall = limit * height / _SIDE  # one unit is as long upwards as sideways
        axes.set(xlim=(-limit, limit), ylim=(-tall, tall), aspect="equal")
        styles = [family_style(families, task) for task in range(len(task_names))]
        for group in groups:
            size = 30 * math.sqrt(len(group.tasks))
            axes.scatter([group.x], [group.y], s=size, zorder=3, **styles[group.tasks[0]])
        line = 2 * limit * _LINE / _SIDE  # in the plane's own unit
        names = [(name, style["color"]) for name, style in zip(task_names, styles, strict=True)]
        _name_side(axes, left, names, line, -limit)
        _name_side(axes, right, names, line, limit)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color("#80808080")
        axes.set_xlabel(f"{100 * found.shown:.0f} % of the squared distances are in this plane")
        families_key(figure, families)
    return figure


def _sides(groups: list[_Group]) -> tuple[list[_Group], list[_Group]]:
    """Returns the groups named at the left and at the right, each from top to bottom."""
    half = sum(len(group.tasks) for group in groups) / 2
    sides: tuple[list[_Group], list[_Group]] = ([], [])
    n_left = 0
    for group in sorted(groups, key=lambda group: group.x):
        is_left = n_left + len(group.tasks) / 2 <= half
        sides[0 if is_left else 1].append(group)
        n_left += len(group.tasks) * is_left
    for side in sides:
        side.sort(key=lambda group: -group.y)
    return sides


def _n_lines(side: list[_Group]) -> float:
    return sum(len(group.tasks) + _GAP for group in side)


def _name_side(
    axes: Axes, side: list[_Group], names: list[tuple[str, str]], line: float, edge: float
) -> None:
    """Writes the names of the groups at one side, and a thread from each group to its point.

    ``names`` holds each task's name and its colour.
    """
    align = "left" if edge > 0 else "right"
    top = line * (_n_lines(side) - _GAP) / 2
    thin: dict[str, Any] = {"color": TEXT, "linewidth": 0.4, "alpha": 0.5, "clip_on": False}
    for group in side:
        n_names = len(group.tasks)
        middle = top - line * n_names / 2
        for number, task in enumerate(group.tasks):
            name, colour = names[task]
            at = top - line * (number + 0.5)
            axes.text(edge * 1.06, at, name, fontsize=8, ha=align, va="center", color=colour)
        axes.plot([group.x, edge, edge * 1.04], [group.y, middle, middle], **thin)
        if n_names > 1:
            ends = [middle - 0.45 * line * n_names, middle + 0.45 * line * n_names]
            axes.plot([edge * 1.04] * 2, ends, color=TEXT, linewidth=0.8, clip_on=False)
        top -= line * (n_names + _GAP)
