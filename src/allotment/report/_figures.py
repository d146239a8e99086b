"""The figures of an experiment by name, and what is shown of the embeddings of runs alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .._checks import check_choice
from ..analysis import (
    embeddings,
    error_curves,
    estimate,
    loss_band,
    measure,
    validation_loss_curves,
)
from ..records import RunRecord, file_name, write_bytes
from ._allocations import family_tables, group_table, relatedness_table, share_table, usage_table
from ._curves import error_figure, loss_bands, probabilities_over_time
from ._drawing import NamedFigure, png, write_drawing
from ._likeness import mds_map, task_tree
from ._maps import allocation_map, similarity_map
from ._section import ResultRow, Section, sections
from ._spec import ReportSpec
from ._table import Table, runs_text
from ._tradeoff import CAPTION, tradeoff_figure


def section_figures(part: Section) -> list[NamedFigure]:
    """Returns the curves of an experiment and the allocation of a typical run of each method."""
    if part.own is not None:
        return list(part.own.figures)
    figures = _curve_figures(part)
    if part.spec.over and any(row.finished for row in part.rows):
        file = f"{part.spec.experiment}-tradeoff"
        draw = partial(tradeoff_figure, part)
        figures.insert(0, NamedFigure(name=file, caption=CAPTION, draw=draw))
    for row in part.learnt:
        if row.typical is not None:
            every = embedding_figures(part, row, row.typical)
            figures += every if row.display.task_by_task else every[:2]  # few are seen at a glance
            figures += _gates_figure(part, row, [row.typical, *row.finished])
    return figures


def write_figures(
    records: Sequence[RunRecord], specs: Sequence[ReportSpec], folder: Path
) -> list[Path]:
    """Writes the pictures that ``markdown_results`` refers to and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for part in sections(records, specs):
        for figure in section_figures(part):
            path = folder / f"{figure.name}.png"
            write_bytes(path, png(figure.draw()))
            paths.append(path)
    return paths


# A name, a caption, what draws, and the curves of each row.
_Curves = tuple[str, str, Callable[..., Figure], list[Any]]


def _curve_figures(part: Section) -> list[NamedFigure]:
    drawn: list[_Curves] = [
        (
            "loss",
            f"Training loss, mean over tasks, {part.smoothing}: the mean over runs, and around "
            "it the 90 % interval of that mean.",
            loss_bands,
            [loss_band(row.runs, part.window) for row in part.rows],
        ),
        _checks_figure(part),
    ]
    figures = []
    for name, caption, draw, found in drawn:
        panels: dict[str, dict[str, Any]] = {}  # by condition and by method's label
        for row, curves in zip(part.rows, found, strict=True):
            if len(curves.rounds) > 1:
                panels.setdefault(row.spec.condition, {})[row.spec.label] = curves
        if panels:
            file = f"{file_name(part.spec.experiment)}-{name}"
            figures.append(NamedFigure(name=file, caption=caption, draw=partial(draw, panels)))
    return figures


def _checks_figure(part: Section) -> _Curves:
    """Returns the validation error over time, or the loss where some task has no accuracy."""
    lines = "during training, mean over tasks: thin lines are runs, thick ones their mean."
    errors = [error_curves(row.runs) for row in part.rows]
    if any(curves.runs for curves in errors):
        return "error", f"Validation error {lines}", error_figure, errors
    draw = partial(error_figure, ylabel="validation loss", factor=1.0)
    losses = [validation_loss_curves(row.runs) for row in part.rows]
    return "validation", f"Validation loss {lines}", draw, losses


def embedding_figures(part: Section, row: ResultRow, record: RunRecord) -> list[NamedFigure]:
    """Returns the pictures of one run's embeddings: two maps, the tree, and the MDS."""
    value = part.spec.shown(estimate([measure(record)])).mean
    shown = f"{value:.3g}\u00a0{part.spec.unit}".strip()
    rows, header = embeddings(record), record.header
    allocation = partial(
        allocation_map, component_names=header.component_names, layer_sizes=header.layer_sizes
    )
    n_runs = sum(math.isfinite(measure(run)) for run in row.runs)
    which_result = "the median result" if n_runs % 2 else "the lower of the two median results"
    which = f"{row.name}, seed {record.header.seed}, the run with {which_result} ({shown})"
    alike = "; tasks with one embedding are one point" if row.display.is_binary else ""
    uses = "Which components" if row.display.is_binary else "How much of which components"
    return [
        NamedFigure(
            name=f"{_stem(part, row)}-{name}",
            caption=f"{caption} {which}.",
            draw=partial(draw, rows, header.task_names, families=header.families),
        )
        for name, caption, draw in (
            ("allocation", f"{uses} each task uses at the end.", allocation),
            ("similarity", "How alike the tasks' embeddings are.", similarity_map),
            (
                "tree",
                "Tasks joined by average linkage on cosine distance; the dashed line cuts the tree "
                "into the clusters that the silhouette chose.",
                task_tree,
            ),
            (
                "mds",
                "Tasks by classical multidimensional scaling (MDS) of their embeddings, the like "
                f"near each other{alike}.",
                mds_map,
            ),
        )
    ]


def _gates_figure(part: Section, row: ResultRow, runs: Sequence[RunRecord]) -> list[NamedFigure]:
    """Returns one task's gates in the first of the runs that has them recorded over time."""
    recorded = [run for run in runs if run.finished and len(run.snapshots.rounds) > 1]
    if not recorded:
        return []
    record, shown = recorded[0], part.spec.shown_task
    header, snapshots = record.header, record.snapshots
    if shown:
        check_choice("shown_task", shown, header.task_names)
    task = header.task_names.index(shown) if shown else 0
    draw = partial(
        probabilities_over_time,
        snapshots.rounds,
        snapshots.probabilities[:, task],
        component_names=header.component_names,
        component_kinds=header.component_kinds if row.display.kinds else (),
        layer_sizes=header.layer_sizes,
        ylabel="probability of being open" if row.display.is_binary else "probability or share",
    )
    what = "gates" if row.display.is_binary else "components"
    caption = (
        f"The {what} of task {header.task_names[task]} during training. {row.name}, seed "
        f"{header.seed}."
    )
    return [NamedFigure(name=f"{_stem(part, row)}-gates", caption=caption, draw=draw)]


def _stem(part: Section, row: ResultRow) -> str:
    """Returns how the names of a method's figures begin."""
    parts = (part.spec.experiment, row.spec.condition, row.spec.method)
    return "-".join(file_name(text) for text in parts if text)


@dataclass(frozen=True, kw_only=True)
class EmbeddingsView:
    """What is shown of one method's embeddings."""

    title: str
    tables: tuple[Table, ...]
    figures: tuple[NamedFigure, ...]


def embeddings_views(
    records: Sequence[RunRecord], specs: Sequence[ReportSpec]
) -> list[EmbeddingsView]:
    """Returns a view of each method that learnt its allocation; of all where none did.

    Groups, clusters and figures are those of the run with the median result.
    """
    found = [(part, row) for part in sections(records, specs) for row in part.rows if row.finished]
    learnt = [(part, row) for part, row in found if row.spec.learnt]
    return [_view(part, row) for part, row in learnt or found]


def write_views(views: Sequence[EmbeddingsView], folder: Path) -> list[Path]:
    """Writes the figures of views as PNG and as SVG and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for named in (named for view in views for named in view.figures):
        paths += write_drawing(named.draw(), folder / named.name)
    return paths


def _view(part: Section, row: ResultRow) -> EmbeddingsView:
    typical = row.typical or row.finished[0]  # a run may have no test accuracy to rank it by
    tables = [relatedness_table([row])]
    if row.relatedness.known is not None:
        tables += family_tables(row, row.relatedness.known)
    tables += [group_table(row, typical), share_table(row)]
    if row.display.usage:
        tables.append(usage_table(row))
    has_others = len(typical.header.task_names) > 1  # one task alone is like nothing
    return EmbeddingsView(
        title=f"{part.spec.experiment}: {row.name} ({runs_text(len(row.finished))})",
        tables=tuple(tables),
        figures=tuple(embedding_figures(part, row, typical)) if has_others else (),
    )
