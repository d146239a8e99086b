"""The figures an experiment gets, by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from .._checks import check_choice
from ..analysis import (
    Band,
    ErrorCurves,
    embeddings,
    error_curves,
    estimate,
    loss_band,
    measure,
    typical_run,
)
from ..records import RunRecord, file_name

from ._drawing import png
from ._error_curves import error_figure
from ._expectation import Expectation, ExpectedRow
from ._loss_bands import loss_bands
from ._maps import allocation_map, similarity_map
from ._plane_map import plane_map
from ._probabilities import probabilities_over_time
from ._section import Section, has_many_tasks, sections
from ._tree import task_tree


@dataclass(frozen=True, kw_only=True)
class NamedFigure:
    """A figure that is drawn when it is asked for."""

    name: str  # of its file, without the ending
    caption: str
    draw: Callable[[], Figure]


def section_figures(part: Section) -> list[NamedFigure]:
    """Returns the loss curves of an experiment and the allocation of a typical run per method."""
    figures = _loss_figure(part) + _error_figure(part)
    for row, runs in part.learnt:
        typical = typical_run(runs)
        if typical is not None:
            every = embedding_figures(part, row, typical)
            figures += every if has_many_tasks(typical) else every[:2]  # few are seen at a glance
            figures += _gates_figure(part, row, [typical, *runs])
    return figures


def write_figures(
    records: Sequence[RunRecord], expectations: Sequence[Expectation], folder: Path
) -> list[Path]:
    """Writes the pictures that ``markdown_results`` refers to and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for part in sections(records, expectations):
        for figure in section_figures(part):
            path = folder / f"{figure.name}.png"
            path.write_bytes(png(figure.draw()))
            paths.append(path)
    return paths


def _loss_figure(part: Section) -> list[NamedFigure]:
    window = part.expectation.window
    panels: dict[str, dict[str, Band]] = {}
    for row, runs in part.rows:
        band = loss_band(runs, window)
        if len(band.rounds) > 1:
            panels.setdefault(row.condition, {})[row.label] = band
    if not panels:
        return []
    caption = (
        f"Training loss, mean over tasks, smoothed over {window} rounds: the mean over runs, and "
        "around it the 90 % interval of that mean."
    )
    draw = partial(loss_bands, panels)
    return [NamedFigure(name=f"{part.expectation.experiment}-loss", caption=caption, draw=draw)]


def _error_figure(part: Section) -> list[NamedFigure]:
    panels: dict[str, dict[str, ErrorCurves]] = {}
    for row, runs in part.rows:
        curves = error_curves(runs)
        if len(curves.rounds) > 1:
            panels.setdefault(row.condition, {})[row.label] = curves
    if not panels:
        return []
    caption = (
        "Validation error during training, mean over tasks: thin lines are runs, thick ones their "
        "mean."
    )
    draw = partial(error_figure, panels)
    return [NamedFigure(name=f"{part.expectation.experiment}-error", caption=caption, draw=draw)]


def embedding_figures(part: Section, row: ExpectedRow, record: RunRecord) -> list[NamedFigure]:
    """Returns the pictures of one run's embeddings: two maps, the tree, and the plane."""
    value = part.expectation.shown(estimate([measure(record)])).mean
    shown = f"{value:.3g}\u00a0{part.expectation.unit}".strip()
    rows, header = embeddings(record), record.header
    allocation = partial(
        allocation_map, component_names=header.component_names, layer_sizes=header.layer_sizes
    )
    which = f"{row.name}, seed {record.header.seed}, the run with the median result ({shown})"
    return [
        NamedFigure(
            name=f"{_stem(part, row)}-{name}",
            caption=f"{caption} {which}.",
            draw=partial(draw, rows, header.task_names, families=header.families),
        )
        for name, caption, draw in (
            ("allocation", "Which components each task uses at the end.", allocation),
            ("similarity", "How alike the tasks' embeddings are.", similarity_map),
            (
                "tree",
                "Tasks joined by average linkage on cosine distance; the dashed line cuts the tree "
                "into the clusters that the silhouette chose.",
                task_tree,
            ),
            (
                "plane",
                "Tasks by classical scaling of their embeddings, the like near each other; tasks "
                "with one embedding are one point.",
                plane_map,
            ),
        )
    ]


def _gates_figure(part: Section, row: ExpectedRow, runs: Sequence[RunRecord]) -> list[NamedFigure]:
    """Returns one task's gates in the first of the runs that has them recorded over time."""
    recorded = [run for run in runs if run.finished and len(run.snapshots.rounds) > 1]
    if not recorded:
        return []
    record, shown = recorded[0], part.expectation.shown_task
    names = record.header.task_names
    if shown:
        check_choice("shown_task", shown, names)
    task = names.index(shown) if shown else 0
    caption = (
        f"The gates of task {names[task]} during training. {row.name}, seed {record.header.seed}."
    )
    snapshots = record.snapshots
    draw = partial(
        probabilities_over_time,
        snapshots.rounds,
        snapshots.probabilities[:, task],
        component_names=record.header.component_names,
        layer_sizes=record.header.layer_sizes,
    )
    return [NamedFigure(name=f"{_stem(part, row)}-gates", caption=caption, draw=draw)]


def _stem(part: Section, row: ExpectedRow) -> str:
    """Returns how the names of a method's figures begin."""
    parts = (part.expectation.experiment, row.condition, row.method)
    return "-".join(file_name(text) for text in parts if text)
