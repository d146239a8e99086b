"""The tree in which tasks with like embeddings are joined."""

from collections.abc import Sequence

from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import dendrogram

from .._schema import Floats
from ..analysis import cluster, cosine_similarity, linkage
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

_LINE = 0.17  # inches for a task
_STEP = 10.0  # between two leaves, in SciPy's coordinates, the first of which is at half a step


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
        figure = new_figure(3.6 + 0.075 * max(map(len, task_names)), 0.9 + _LINE * n_tasks)
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
