"""Curves over rounds: training loss, validation error or loss, and a task's gates."""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from .._checks import numbers
from .._schema import Floats
from ..analysis import Band, ErrorCurves
from ._drawing import (
    checked_layers,
    drawing,
    key_below,
    key_of_lines,
    line_style,
    make_logarithmic,
    new_figure,
    panel_row,
    plain_axes,
)

_LOG_FROM = 10.0  # ratio of the largest mean to the smallest
_PER_ROW = 4  # panels


def loss_bands(panels: Mapping[str, Mapping[str, Band]]) -> Figure:
    """Returns a figure of bands by condition and by method's label; colours follow the labels."""
    labels = list(dict.fromkeys(chain.from_iterable(panels.values())))
    with drawing():
        figure, row = panel_row(panels, height=3.4, ylabel="training loss")
        for axes, bands in zip(row, panels.values(), strict=True):
            _draw_panel(axes, bands, labels)
        means = _means(panels)
        if len(means) and means.min() > 0 and means.max() / means.min() > _LOG_FROM:
            make_logarithmic(row[0])
            # A band that reaches down to 0 would have no end on this axis.
            row[0].set_ylim(bottom=max(row[0].get_ylim()[0], means.min() / 2))
        key_of_lines(figure)
    return figure


def _draw_panel(axes: Axes, bands: Mapping[str, Band], labels: list[str]) -> None:
    for label, band in bands.items():
        style = line_style(labels.index(label), len(labels))
        axes.plot(band.rounds, band.mean, label=f"{label} (n={band.n_runs})", **style)
        if band.n_runs > 1:
            axes.fill_between(
                band.rounds, band.low, band.high, color=style["color"], alpha=0.25, lw=0
            )


def _means(panels: Mapping[str, Mapping[str, Band]]) -> Floats:
    """Returns all means that are finite."""
    means = np.concatenate([band.mean for bands in panels.values() for band in bands.values()])
    finite: Floats = means[np.isfinite(means)]
    return finite


def error_figure(
    panels: Mapping[str, Mapping[str, ErrorCurves]],
    *,
    ylabel: str = "validation error, %",
    factor: float = 100.0,
) -> Figure:
    """Returns curves by condition and by method: a thin line for a run, a thick one the mean."""
    labels = list(dict.fromkeys(chain.from_iterable(panels.values())))
    every = [curves for methods in panels.values() for curves in methods.values()]
    with drawing():
        figure, row = panel_row(panels, height=3.2, ylabel=ylabel)
        for axes, methods in zip(row, panels.values(), strict=True):
            for label, curves in methods.items():
                style = line_style(labels.index(label), len(labels))
                for rounds, errors in curves.runs:
                    axes.plot(
                        rounds, factor * errors, color=style["color"], linewidth=0.5, alpha=0.5
                    )
                axes.plot(curves.rounds, factor * curves.mean, linewidth=1.8, label=label, **style)
        if all(errors.min() > 0 for each in every for _, errors in each.runs):
            make_logarithmic(row[0])  # what changes late is small beside what changes early
        key_of_lines(figure)
    return figure


def probabilities_over_time(
    rounds: ArrayLike,
    probabilities: ArrayLike,
    *,
    component_names: Sequence[str] = (),
    component_kinds: Sequence[str] = (),
    layer_sizes: Sequence[int] = (),
    ylabel: str = "probability of being open",
) -> Figure:
    """Returns one task's probability of each open gate over rounds, a panel for each layer.

    A component has the colour of its kind, or of its name where no kind is given.

    Args:
        rounds: The rounds that were recorded, shape ``[m]``.
        probabilities: The task's probabilities at each of them, shape ``[m, C]``.
        component_names: A name for each component; numbers if left out.
        component_kinds: What each component is, such as "conv3x3".
        layer_sizes: The number of components in each layer; one layer if left out.
        ylabel: What is shown, where that is something else.
    """
    times, gates = numbers("rounds", rounds), numbers("probabilities", probabilities)
    if gates.ndim != 2 or times.shape != gates.shape[:1]:
        raise ValueError(
            "`probabilities` should be of shape [m, C] for m rounds. "
            f"Found shape {list(gates.shape)} for rounds of shape {list(times.shape)}."
        )
    sizes, kinds = checked_layers(layer_sizes, component_kinds or component_names, gates.shape[1])
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
        figure.supylabel(ylabel, fontsize=9)
        lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
        key_below(figure, list(lines.values()), list(lines))
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
