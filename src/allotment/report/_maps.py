"""Maps of an allocation: who uses what, and who is like whom."""

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from .._schema import Floats
from ..analysis import cosine_similarity, leaf_order, linkage
from ._drawing import COLOURS, MAP, TEXT, checked_layers, checked_rows, drawing, new_figure

# From a grey that is faint on a light page and on a dark one.
_SHADES = LinearSegmentedColormap.from_list("use", ["#80808033", COLOURS[0]])
_MANY_CELLS = 400  # more are drawn as a picture: as shapes they would weigh too much
_MANY = 100  # tasks or components beyond which cells are smaller, and not all have their names
_NUMBERED = 8  # tasks up to which a similarity is written into its cell
_LEAST_SIDE = 1.9  # inches of a map of similarity: the words beside its colours need them


def allocation_map(
    embeddings: ArrayLike,
    task_names: Sequence[str],
    *,
    component_names: Sequence[str] = (),
    layer_sizes: Sequence[int] = (),
    families: Sequence[str] = (),
) -> Figure:
    """Returns a map of who uses what, tasks by components, layer beside layer.

    Gates are open or shut; other weights are shades, the largest in full colour.

    Args:
        embeddings: Who uses what, shape ``[T, C]``.
        task_names: A name for each row.
        component_names: A name for each column; numbers if left out.
        layer_sizes: The number of components in each layer; one layer if left out.
        families: The group each task is known to belong to, written beside it.

    >>> figure = allocation_map([[1, 0], [1, 1]], ["size", "kind"], component_names="AB")
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['size', 'kind']
    """
    rows = checked_rows(embeddings, task_names, families)
    n_tasks, n_components = rows.shape
    sizes, names = checked_layers(layer_sizes, component_names, n_components)
    cell = _cell(max(rows.shape))
    turned = _are_long(names)
    below = _room(names) if turned else 0.3
    has_shades = not np.isin(rows, (0.0, 1.0)).all()
    width = _room(task_names) + n_components * cell + _room(families) + 0.9 * has_shades
    with drawing():
        figure = new_figure(width, below + n_tasks * cell + 0.4, square=True)
        axes = figure.subplots()
        cells = _draw_cells(axes, rows)
        if has_shades:
            bar = figure.colorbar(cells, ax=axes, shrink=0.8, label="weight")
            bar.outline.set_visible(False)
        _name_tasks(axes, task_names)
        size, turn = _font_size(n_components), 90 if turned else 0
        shown = _named(n_components)
        axes.set_xticks(shown, [names[n] for n in shown], rotation=turn, fontsize=size)
        _separate_layers(axes, sizes)
        _separate_families(axes, families)
        _name_families(axes, families, n_components)
    return figure


def similarity_map(
    embeddings: ArrayLike, task_names: Sequence[str], *, families: Sequence[str] = ()
) -> Figure:
    """Returns a map of the cosine similarity of the tasks' embeddings.

    Tasks of known families stay in their order; others stand as in their tree, the like together.

    Args:
        embeddings: Who uses what, shape ``[T, C]``.
        task_names: A name for each row.
        families: The group each task is known to belong to.
    """
    similarity = cosine_similarity(checked_rows(embeddings, task_names, families))  # [T, T]
    n_tasks, names = len(similarity), list(task_names)
    if not families:
        order = leaf_order(linkage(similarity))
        similarity = similarity[np.ix_(order, order)]
        names = [names[task] for task in order]
    side = n_tasks * min(_cell(n_tasks), 0.15 if n_tasks > _NUMBERED else 1.0)
    side = max(side + _room(names), _LEAST_SIDE)
    with drawing():
        figure = new_figure(side + 0.9, side, square=True)
        axes = figure.subplots()
        least = _least(similarity)
        picture = axes.imshow(similarity, cmap=MAP, vmin=least, vmax=1.0)
        bar = figure.colorbar(picture, ax=axes, shrink=0.8, label="cosine similarity")
        bar.outline.set_visible(False)
        _name_tasks(axes, names)
        size = _font_size(n_tasks)
        turn = 90 if _are_long(names) else 0
        shown = _named(n_tasks)
        axes.set_xticks(shown, [names[n] for n in shown], rotation=turn, fontsize=size)
        axes.spines[:].set_visible(False)
        if n_tasks <= _NUMBERED:
            _write_numbers(axes, similarity, light_from=(1 + least) / 2)
        _separate_families(axes, families, across=True)
    return figure


def _draw_cells(axes: Axes, rows: Floats) -> PatchCollection:
    """Draws each weight as a square with a little room around it."""
    squares = [Rectangle((x - 0.45, y - 0.45), 0.9, 0.9) for y, x in np.ndindex(rows.shape)]
    weights = np.abs(rows).ravel()
    cells = PatchCollection(squares, cmap=_SHADES, edgecolors="none")
    cells.set_array(weights)
    cells.set_clim(0.0, float(weights.max()) or 1.0)
    cells.set_rasterized(rows.size > _MANY_CELLS)
    axes.add_collection(cells)
    n_tasks, n_components = rows.shape
    axes.set(xlim=(-0.6, n_components - 0.4), ylim=(n_tasks - 0.4, -0.6), aspect="equal")
    axes.spines[:].set_visible(False)
    return cells


def _name_tasks(axes: Axes, names: Sequence[str]) -> None:
    shown = _named(len(names))
    axes.set_yticks(shown, [names[n] for n in shown], fontsize=_font_size(len(names)))
    axes.tick_params(length=0)


def _separate_layers(axes: Axes, sizes: Sequence[int]) -> None:
    start = 0
    for layer, size in enumerate(sizes):
        if start:
            axes.axvline(start - 0.5, color=TEXT, linewidth=0.8)
        name = f"layer {layer + 1}" if size > 2 or len(sizes) == 1 else f"{layer + 1}"
        middle = start + (size - 1) / 2
        axes.text(middle, -0.75, name, ha="center", va="bottom", fontsize=8)
        start += size


def _family_blocks(families: Sequence[str]) -> list[tuple[str, int, int]]:
    """Returns each family with the first of its tasks and their number, wherever it changes."""
    sizes = [(family, len(list(tasks))) for family, tasks in groupby(families)]
    starts = np.cumsum([0, *(size for _, size in sizes)]).tolist()
    return [(family, start, size) for (family, size), start in zip(sizes, starts, strict=False)]


def _separate_families(axes: Axes, families: Sequence[str], *, across: bool = False) -> None:
    """Draws a line wherever the family changes; ``across``: between columns as well."""
    for _, start, _ in _family_blocks(families)[1:]:
        axes.axhline(start - 0.5, color=TEXT, linewidth=0.8)
        if across:
            axes.axvline(start - 0.5, color=TEXT, linewidth=0.8)


def _name_families(axes: Axes, families: Sequence[str], right: int) -> None:
    """Writes each family at the right of its tasks."""
    for family, start, size in _family_blocks(families):
        middle = start + (size - 1) / 2
        axes.text(right - 0.3, middle, family, ha="left", va="center", fontsize=8)


def _least(similarity: Floats) -> float:
    """Returns where the colours begin: at 0, or higher where all tasks are much alike."""
    least = float(similarity.min())
    return min(math.floor(10 * least) / 10, 0.9) if least >= 0.5 else 0.0


def _write_numbers(axes: Axes, similarity: Floats, *, light_from: float) -> None:
    for (row, column), value in np.ndenumerate(similarity):
        colour = "black" if value > light_from else "white"
        text = f"{value:.2f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)


def _cell(n: int) -> float:
    """Returns the side of a cell in inches where ``n`` stand beside each other."""
    return 0.42 if n <= 8 else 0.3 if n <= 16 else 0.17 * min(1.0, _MANY / n)


def _named(n: int) -> range:
    """Returns which of ``n`` beside each other have their names written."""
    return range(0, n, -(-n // _MANY))


def _font_size(n: int) -> float:
    return 9 if n <= 16 else 7


def _are_long(names: Sequence[str]) -> bool:
    """Returns whether names are too long to stand below cells without being turned."""
    return max(map(len, names)) > 2


def _room(names: Sequence[str]) -> float:
    """Returns the room in inches that names beside a map need."""
    size = _font_size(len(names)) / 9
    return 0.25 + 0.08 * size * max(map(len, names), default=0)
