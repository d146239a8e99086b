"""How a task's gates make up their mind."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from .._schema import Floats
from ..analysis import component_kind

from ._drawing import drawing, key_below, line_style, new_figure, plain_axes
from ._rows import checked_layers

_PER_ROW = 4  # panels


def probabilities_over_time(
    rounds: ArrayLike,
    probabilities: ArrayLike,
    *,
    component_names: Sequence[str] = (),
    layer_sizes: Sequence[int] = (),
) -> Figure:
    """Returns one task's probability of each open gate over rounds, a panel for each layer.

    A component has the colour of its kind, and copies of one kind ("conv A", "conv B") share it.

    Args:
        rounds: The rounds that were looked at, shape ``[m]``.
        probabilities: The task's probabilities at each of them, shape ``[m, C]``.
        component_names: A name for each component; numbers if left out.
        layer_sizes: The number of components in each layer; one layer if left out.
    """
    times, gates = np.asarray(rounds, dtype=float), np.asarray(probabilities, dtype=float)
    if gates.ndim != 2 or times.shape != gates.shape[:1]:
        raise ValueError(
            "`probabilities` should be of shape [m, C] for m rounds. "
            f"Found shape {list(gates.shape)} for rounds of shape {list(times.shape)}."
        )
    sizes, names = checked_layers(layer_sizes, component_names, gates.shape[1])
    kinds = [component_kind(name) for name in names]
    n_columns = min(len(sizes), _PER_ROW)
    n_rows = -(-len(sizes) // n_columns)
    with drawing():
        figure = new_figure(max(4.8, 2.3 * n_columns), 1.9 * n_rows + 0.6)
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        panels = grid.ravel().tolist()
        starts = np.cumsum([0, *sizes])
        for layer, axes in enumerate(panels[: len(sizes)]):
            columns = slice(starts[layer], starts[layer + 1])
            _draw_layer(axes, times, gates[:, columns], kinds[columns], kinds)
            axes.set_title(f"layer {layer + 1}")
            if layer >= len(sizes) - n_columns:
                axes.set_xlabel("rounds")
        for axes in panels[len(sizes) :]:
            axes.set_visible(False)
        figure.supylabel("probability of being open", fontsize=9)
        lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
        shown = [kind for kind in dict.fromkeys(kinds) if kind in lines]
        key_below(figure, [lines[kind] for kind in shown], shown)
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
