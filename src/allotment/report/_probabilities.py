"""How a task's gates make up their mind."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from allotment._progress import Floats
from allotment.analysis import component_kind
from allotment.records import RunRecord

from ._drawing import drawing, line_style, new_figure, plain_axes

_PER_ROW = 4  # panels


def probabilities_over_time(record: RunRecord, task: int = 0) -> Figure:
    """Returns one task's probability of each open gate over rounds, a panel for each layer.

    A component has the colour of its kind, and copies of one kind share it.
    """
    sizes = record.header.layer_sizes
    kinds = [component_kind(name) for name in record.header.component_names]
    n_columns = min(len(sizes), _PER_ROW)
    n_rows = -(-len(sizes) // n_columns)
    with drawing():
        figure = new_figure(max(4.8, 2.3 * n_columns), 1.9 * n_rows + 0.6)
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        panels = grid.ravel().tolist()
        starts = np.cumsum([0, *sizes])
        for layer, axes in enumerate(panels[: len(sizes)]):
            columns = slice(starts[layer], starts[layer + 1])
            gates = record.snapshots.probabilities[:, task, columns]
            _draw_layer(axes, record.snapshots.rounds, gates, kinds[columns], kinds)
            axes.set_title(f"layer {layer + 1}")
            if layer >= len(sizes) - n_columns:
                axes.set_xlabel("rounds")
        for axes in panels[len(sizes) :]:
            axes.set_visible(False)
        figure.supylabel("probability of open", fontsize=9)
        lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
        names = [name for name in dict.fromkeys(kinds) if name in lines]
        per_row = max(1, int(figure.get_figwidth() / (0.6 + 0.08 * max(map(len, names)))))
        handles = [lines[name] for name in names]
        figure.legend(handles, names, loc="outside lower center", ncols=per_row, frameon=False)
    return figure


def _draw_layer(
    axes: Axes, rounds: Floats, probabilities: Floats, names: list[str], kinds: list[str]
) -> None:
    """Draws a layer's gates, shape ``[m, C]``, a line for each component."""
    order = list(dict.fromkeys(kinds))
    for name, gate in zip(names, probabilities.T, strict=True):
        axes.plot(rounds, gate, label=name, **line_style(order.index(name), len(order)))
    axes.set_ylim(-0.04, 1.04)
    plain_axes(axes)
