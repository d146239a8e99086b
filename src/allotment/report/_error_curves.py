"""Validation error over rounds, each run and their mean."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from ..analysis import ErrorCurves

from ._drawing import drawing, key_of_lines, line_style, make_logarithmic, panel_row


def error_figure(panels: Mapping[str, Mapping[str, ErrorCurves]]) -> Figure:
    """Returns curves by condition and by method: a thin line for a run, a thick one the mean."""
    labels = list(dict.fromkeys(label for curves in panels.values() for label in curves))
    every = [curves for methods in panels.values() for curves in methods.values()]
    with drawing():
        figure, row = panel_row(panels, height=3.2, ylabel="validation error, %")
        for axes, methods in zip(row, panels.values(), strict=True):
            for label, curves in methods.items():
                style = line_style(labels.index(label), len(labels))
                for rounds, errors in curves.runs:
                    axes.plot(rounds, 100 * errors, color=style["color"], linewidth=0.5, alpha=0.5)
                axes.plot(curves.rounds, 100 * curves.mean, linewidth=1.8, label=label, **style)
        if all(errors.min() > 0 for each in every for _, errors in each.runs):
            make_logarithmic(row[0])  # what changes late is small beside what changes early
        key_of_lines(figure)
    return figure
