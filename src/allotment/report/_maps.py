"""Maps of a run's allocation: who uses what, and who is like whom."""

import math
from dataclasses import replace
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from allotment._progress import Floats, RunHeader
from allotment.analysis import cosine_similarity, embeddings, leaf_order, linkage
from allotment.records import RunRecord

from ._drawing import COLOURS, INK, MAP, drawing, new_figure

_SHUT = "#80808033"  # a grey that is faint on a light page and on a dark one
_MANY_CELLS = 400  # more are drawn as a picture: as shapes they would weigh too much
_NUMBERED = 8  # tasks up to which a similarity is written into its cell


def allocation_map(record: RunRecord) -> Figure:
    """Returns a map of the open gates at the end, tasks by components, layer beside layer."""
    rows = embeddings(record)  # [T, C]
    n_tasks, n_components = rows.shape
    header, cell = record.header, _cell(max(rows.shape))
    turned = max(map(len, header.component_names)) > 2
    below = _room(header.component_names) if turned else 0.3
    width = _room(header.task_names) + n_components * cell + _room(header.families)
    with drawing():
        figure = new_figure(width, below + n_tasks * cell + 0.4)
        axes = figure.subplots()
        _draw_cells(axes, rows)
        _name_tasks(axes, header)
        size, turn = _font_size(n_components), 90 if turned else 0
        axes.set_xticks(range(n_components), header.component_names, rotation=turn, fontsize=size)
        _separate_layers(axes, header.layer_sizes)
        _separate_families(axes, header.families)
        _name_families(axes, header.families, n_components)
    return figure


def similarity_map(record: RunRecord) -> Figure:
    """Returns a map of the cosine similarity of the tasks' embeddings.

    Tasks of known families stay in their order; others stand as in their tree, the like together.
    """
    similarity = cosine_similarity(embeddings(record))  # [T, T]
    n_tasks, header = len(similarity), record.header
    if not header.families:
        order = leaf_order(linkage(similarity))
        similarity = similarity[np.ix_(order, order)]
        header = replace(header, task_names=tuple(header.task_names[task] for task in order))
    side = n_tasks * min(_cell(n_tasks), 0.15 if n_tasks > _NUMBERED else 1.0)
    side += _room(header.task_names)
    with drawing():
        figure = new_figure(side + 0.9, side)
        axes = figure.subplots()
        least = _least(similarity)
        picture = axes.imshow(similarity, cmap=MAP, vmin=least, vmax=1.0)
        bar = figure.colorbar(picture, ax=axes, shrink=0.8, label="cosine similarity")
        bar.outline.set_visible(False)
        _name_tasks(axes, header)
        size = _font_size(n_tasks)
        axes.set_xticks(range(n_tasks), header.task_names, rotation=90, fontsize=size)
        axes.spines[:].set_visible(False)
        if n_tasks <= _NUMBERED:
            _write_numbers(axes, similarity, light_from=(1 + least) / 2)
        _separate_families(axes, header.families, across=True)
    return figure


def _draw_cells(axes: Axes, rows: Floats) -> None:
    """Draws each gate as a square with a little room around it."""
    squares = [Rectangle((x - 0.45, y - 0.45), 0.9, 0.9) for y, x in np.ndindex(rows.shape)]
    colours = [COLOURS[0] if gate else _SHUT for gate in rows.ravel()]
    cells = PatchCollection(squares, facecolors=colours, edgecolors="none")
    cells.set_rasterized(rows.size > _MANY_CELLS)
    axes.add_collection(cells)
    n_tasks, n_components = rows.shape
    axes.set(xlim=(-0.6, n_components - 0.4), ylim=(n_tasks - 0.4, -0.6), aspect="equal")
    axes.spines[:].set_visible(False)


def _name_tasks(axes: Axes, header: RunHeader) -> None:
    n_tasks = len(header.task_names)
    axes.set_yticks(range(n_tasks), header.task_names, fontsize=_font_size(n_tasks))
    axes.tick_params(length=0)


def _separate_layers(axes: Axes, sizes: tuple[int, ...]) -> None:
    start = 0
    for layer, size in enumerate(sizes):
        if start:
            axes.axvline(start - 0.5, color=INK, linewidth=0.8)
        name = f"layer {layer + 1}" if size > 2 else f"{layer + 1}"
        middle = start + (size - 1) / 2
        axes.text(middle, -0.75, name, ha="center", va="bottom", fontsize=8)
        start += size


def _stretches(families: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """Returns each family with the first of its tasks and their number, wherever it changes."""
    sizes = [(family, len(list(stretch))) for family, stretch in groupby(families)]
    starts = np.cumsum([0, *(size for _, size in sizes)]).tolist()
    return [(family, start, size) for (family, size), start in zip(sizes, starts, strict=False)]


def _separate_families(axes: Axes, families: tuple[str, ...], *, across: bool = False) -> None:
    """Draws a line wherever the family changes; ``across``: between columns as well."""
    for _, start, _ in _stretches(families)[1:]:
        axes.axhline(start - 0.5, color=INK, linewidth=0.8)
        if across:
            axes.axvline(start - 0.5, color=INK, linewidth=0.8)


def _name_families(axes: Axes, families: tuple[str, ...], right: int) -> None:
    """Writes each family at the right of its tasks."""
    for family, start, size in _stretches(families):
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
    return 0.42 if n <= 8 else 0.3 if n <= 16 else 0.17


def _font_size(n: int) -> float:
    return 9 if n <= 16 else 7


def _room(names: tuple[str, ...]) -> float:
    """Returns the room in inches that names beside a map need."""
    size = _font_size(len(names)) / 9
    return 0.25 + 0.08 * size * max(map(len, names), default=0)
