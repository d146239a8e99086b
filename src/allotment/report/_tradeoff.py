"""What methods reach for what they cost, where they are one method at several values."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..analysis import Estimate, estimate, pareto, used_parameters, validation_measure
from ._drawing import COLOURS, drawing, new_figure, plain_axes
from ._section import ResultRow, Section
from ._table import Column, Table, make_table

_GREY = COLOURS[-1]
CAPTION = (
    "What each value reaches for what it costs, the mean over runs with its 90 % interval. Grey: "
    "on validation another point costs no more and reaches no less, so nobody should choose this "
    "one."
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """A method at one value of a setting."""

    row: ResultRow
    cost: Estimate  # share of the network's parameters that a task's network has, in percent
    value: Estimate  # as the report shows it
    validated: Estimate  # the same on validation; without any, the training loss
    is_chosen: bool  # no other point costs no more and is no worse on validation


def points_of(part: Section) -> list[Point]:
    """Returns the methods that have runs which reached their end.

    Which of them to choose is decided on validation, never on the test results that are shown;
    where nothing was validated, none is ruled out.
    """
    rows = [row for row in part.rows if row.finished]
    costs = [estimate(100 * used_parameters(run).mean() for run in row.finished) for row in rows]
    values = [part.spec.shown(row.summary.measure) for row in rows]
    found = [part.spec.shown(estimate(map(validation_measure, row.finished))) for row in rows]
    known = np.array([validated.mean for validated in found])
    are_chosen = np.isnan(known) | pareto(
        [cost.mean for cost in costs], known, higher_is_better=part.higher_is_better
    )
    return [
        Point(row=row, cost=cost, value=value, validated=validated, is_chosen=bool(is_chosen))
        for row, cost, value, validated, is_chosen in zip(
            rows, costs, values, found, are_chosen, strict=True
        )
    ]


def tradeoff_table(part: Section) -> Table | None:
    """Returns the points with what they cost, cheapest first; None where there are no runs."""
    points = sorted(points_of(part), key=lambda point: point.cost.mean)
    if not points:
        return None
    label = part.measure_label
    columns: list[Column[Point]] = [
        Column("Method", lambda point: point.row.name, kind="name"),
        Column("Parameters of a task's network", lambda point: f"{point.cost.mean:.0f} %"),
        Column(label, lambda point: str(point.value)),
        Column("On validation", lambda point: str(point.validated) if point.validated.n else "–"),
        Column("To be chosen", lambda point: "yes" if point.is_chosen else "no", kind="text"),
    ]
    return make_table(columns, points, "What is reached for what it costs, cheapest first")


def tradeoff_figure(part: Section) -> Figure:
    """Returns a point for each value; those that others dominate are grey."""
    points = points_of(part)
    with drawing():
        figure = new_figure(5.6, 3.6)
        axes = figure.subplots()
        plain_axes(axes)
        chosen = sorted((p.cost.mean, p.value.mean) for p in points if p.is_chosen)
        axes.plot(*np.transpose(chosen), color=COLOURS[0], linewidth=1, alpha=0.6)
        for point in sorted(points, key=lambda point: point.is_chosen):  # the grey ones below
            _draw_point(axes, point, _value(part, point))
        if not all(point.is_chosen for point in points):
            _explain_grey(axes, higher_is_better=part.higher_is_better)
        # Two runs have an interval that would leave no room for the points.
        sds = [0.0 if point.value.n < 2 else point.value.sd for point in points]
        means = np.array([point.value.mean for point in points])
        pad = 0.15 * max(float(np.ptp(means)), max(sds)) or 1.0
        axes.set_ylim((means - sds).min() - pad, (means + sds).max() + pad)
        axes.margins(x=0.1)
        axes.set_xlabel("parameters of a task's network, % of all, mean over tasks")
        axes.set_ylabel(part.measure_label[:1].lower() + part.measure_label[1:])
        axes.set_title(f"values of {part.spec.over}")
    return figure


def _draw_point(axes: Axes, point: Point, name: str) -> None:
    """Draws a point with its interval, named above it where it is chosen and else below."""
    colour = COLOURS[0] if point.is_chosen else _GREY
    place = point.cost.mean, point.value.mean
    if point.value.n > 1:
        axes.vlines(place[0], *point.value.interval, color=colour, linewidth=0.8, alpha=0.45)
    axes.plot(*place, "o", markersize=5, color=colour)
    offset = (4, 5) if point.is_chosen else (4, -11)
    axes.annotate(name, place, xytext=offset, textcoords="offset points", fontsize=8, color=colour)


def _explain_grey(axes: Axes, *, higher_is_better: bool) -> None:
    """Adds a legend of the colours, since the figure also stands without its caption."""
    axes.plot([], "o", markersize=5, color=COLOURS[0], label="to be chosen")
    axes.plot([], "o", markersize=5, color=_GREY, label="on validation another beats it")
    place: Literal["lower right", "upper right"] = (
        "lower right" if higher_is_better else "upper right"
    )
    axes.legend(loc=place, fontsize=8, frameon=False)


def _value(part: Section, point: Point) -> str:
    """Returns the value of the setting, which the label ends in."""
    return point.row.spec.label.rpartition(f"{part.spec.over} ")[2]
