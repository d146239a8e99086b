"""What a method gains: in words, and as maps by two numbers that describe the tasks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import AsinhNorm, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from .._schema import Floats
from ..analysis import Advantage, n_decimals
from ._drawing import COLOURS, TEXT, drawing, new_figure
from ._table import NOTHING

# A loss, nothing, a gain; told apart by colour-blind readers.
_TWO_WAYS = LinearSegmentedColormap.from_list("gain", [COLOURS[1], "#f2f2f2", COLOURS[0]])
_MISSING = "#c8c8c8"
_WIDTH, _CELL, _AROUND = 7.4, 0.36, 0.62  # inches: of a figure, of a row, around a panel
_LINEAR = 2.0  # percent up to which colours are about in proportion; beyond, to their logarithm
_DARK = 0.8  # of the largest colour, from which on numbers are white


def advantage_text(value: Advantage | None) -> str:
    """Returns how much better something is, if that is known, with its 90 % interval, if any.

    >>> from allotment.analysis import Advantage
    >>> from allotment.report import advantage_text
    >>> advantage_text(Advantage(mean=0.312, low=0.27, high=0.354, n=10)), advantage_text(None)
    ('+0.31 (+0.27 to +0.35)', '–')
    """
    if value is None:
        return NOTHING
    if value.n < 2:
        return f"{value.mean:+.1f} (one seed)"
    digits = min(2, n_decimals((value.high - value.low) / 2))
    mean, low, high = (f"{each:+z.{digits}f}" for each in (value.mean, value.low, value.high))
    return f"{mean} ({low} to {high})"


@dataclass(frozen=True, kw_only=True)
class GainPanel:
    """A map: values of rows and columns, of which some are marked.

    Attributes:
        title: Of the panel.
        columns: Names of the columns.
        rows: Names of the rows, the lowest first.
        values: Shape ``[rows, columns]``; NaN where there is none.
        marked: Which of them get a dot, of the same shape.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Floats
    marked: Floats

    def __post_init__(self) -> None:
        shape = (len(self.rows), len(self.columns))
        if self.values.shape != shape or self.marked.shape != shape:
            raise ValueError(
                f"`values` and `marked` should be of shape {list(shape)}, rows by columns. "
                f"Found {list(self.values.shape)} and {list(self.marked.shape)}."
            )


def gain_maps(panels: Sequence[GainPanel], *, xlabel: str, ylabel: str, label: str) -> Figure:
    """Returns the first panel over the whole width, and the others below it, two in a row.

    Colours have one scale, which ends at the largest value of all panels, either way. It is about
    linear near 0 and logarithmic beyond, so that a gain of a few percent is seen beside a loss of
    a hundred.

    Args:
        panels: What is drawn.
        xlabel: What columns are.
        ylabel: What rows are.
        label: What the numbers are, beside their colours.
    """
    lines = [panels[:1], *(panels[i : i + 2] for i in range(1, len(panels), 2))]
    heights = [_CELL * max(len(each.rows) for each in line) + _AROUND for line in lines]
    limit = _largest(panels)
    norm = AsinhNorm(_LINEAR, -limit, limit)
    with drawing():
        figure = new_figure(_WIDTH, sum(heights) + 0.3)
        grid = figure.add_gridspec(len(lines), 2, height_ratios=heights)
        for place, line in enumerate(lines):
            for side, panel in enumerate(line):
                spot = grid[place, :] if place == 0 else grid[place, side]
                axes = figure.add_subplot(spot)
                picture = _draw(axes, panel, norm)
                if side == 0:
                    axes.set_ylabel(ylabel)
                if place in (0, len(lines) - 1):
                    axes.set_xlabel(xlabel)
        bar = figure.colorbar(picture, ax=figure.axes, shrink=0.6, aspect=30, label=label)
        at = _round_numbers(limit)
        bar.set_ticks(at, labels=[f"{each:g}" for each in at])
        bar.minorticks_off()
        bar.outline.set_visible(False)
    return figure


def _largest(panels: Sequence[GainPanel]) -> float:
    """Returns the largest value either way; 1 where there is none but 0."""
    values = np.concatenate([np.abs(panel.values).ravel() for panel in panels])
    return float(np.nanmax(values, initial=0.0)) or 1.0


def _round_numbers(limit: float) -> list[float]:
    """Returns what is written beside the colours: 0, and round numbers either way."""
    above = [each for each in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0) if each <= limit]
    return [*(-each for each in reversed(above)), 0.0, *above]


def _draw(axes: Axes, panel: GainPanel, norm: AsinhNorm) -> AxesImage:
    colours = _TWO_WAYS.with_extremes(bad=_MISSING)
    picture = axes.imshow(
        np.ma.masked_invalid(panel.values),
        cmap=colours,
        norm=norm,
        aspect="auto",
        origin="lower",
    )
    axes.set_title(panel.title)
    axes.set_xticks(range(len(panel.columns)), panel.columns)
    axes.set_yticks(range(len(panel.rows)), panel.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    shares = np.asarray(picture.norm(panel.values), dtype=np.float64)  # of the scale, 0 to 1
    for (row, column), value in np.ndenumerate(panel.values):
        if math.isnan(value):
            continue
        colour = "white" if abs(2 * shares[row, column] - 1) > _DARK else TEXT
        text = f"{value:+.0f}" if round(value) else "0"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
        if panel.marked[row, column]:
            axes.plot(column + 0.38, row + 0.32, "o", color=colour, markersize=2.2)
    return picture
