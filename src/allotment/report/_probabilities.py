"""How a task's gates make up their mind."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from allotment._progress import Floats
from allotment.records import RunRecord

from ._drawing import drawing, line_style, new_figure, plain_axes

_PER_ROW = 4  # panels
_NAMED = 8  # components of a layer up to which a panel names its lines


def probabilities_over_time(record: RunRecord, task: int = 0) -> Figure:
    """Returns one task's probability of each open gate over rounds, a panel for each layer."""
    sizes = record.header.layer_sizes
    n_columns = min(len(sizes), _PER_ROW)
    n_rows = -(-len(sizes) // n_columns)
    with drawing():
        figure = new_figure(max(4.2, 2.6 * n_columns), 2.4 * n_rows)
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        panels = grid.ravel().tolist()
        starts = np.cumsum([0, *sizes])
        for layer, axes in enumerate(panels[: len(sizes)]):
            columns = slice(starts[layer], starts[layer + 1])
            names = record.header.component_names[columns]
            _draw_layer(axes, record, record.snapshots.probabilities[:, task, columns], names)
            axes.set_title(f"layer {layer + 1}")
        for axes in panels[len(sizes) :]:
            axes.set_visible(False)
        figure.supxlabel("rounds", fontsize=9)
        figure.supylabel("probability of open", fontsize=9)
    return figure


def _draw_layer(
    axes: Axes, record: RunRecord, probabilities: Floats, names: tuple[str, ...]
) -> None:
    """Draws a layer's gates, shape ``[m, C]``, a line for each component."""
    for place, (name, gate) in enumerate(zip(names, probabilities.T, strict=True)):
        axes.plot(record.snapshots.rounds, gate, label=name, **line_style(place, len(names)))
    axes.set_ylim(-0.04, 1.04)
    plain_axes(axes)
    if len(names) <= _NAMED:
        axes.legend(fontsize=6, frameon=False, loc="center right", handlelength=1.0)
