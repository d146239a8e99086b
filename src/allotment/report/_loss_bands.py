"""Training loss over rounds, a band for each method, a panel for each condition."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._schema import Floats
from ..analysis import Band

from ._drawing import drawing, key_of_lines, line_style, make_logarithmic, panel_row

_LOG_FROM = 10.0  # ratio of the largest mean to the smallest


def loss_bands(panels: Mapping[str, Mapping[str, Band]]) -> Figure:
    """Returns a figure of bands by condition and by method's label; colours follow the labels."""
    labels = list(dict.fromkeys(label for bands in panels.values() for label in bands))
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
