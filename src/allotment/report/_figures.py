"""The figures an experiment gets, by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from allotment.analysis import Band, loss_band, measure, typical_run
from allotment.records import RunRecord

from ._drawing import png
from ._expectation import Expectation, ExpectedRow
from ._loss_bands import loss_bands
from ._maps import allocation_map, similarity_map
from ._probabilities import probabilities_over_time
from ._section import Section, sections


@dataclass(frozen=True, kw_only=True)
class NamedFigure:
    """A figure that is drawn when it is asked for."""

    name: str  # of its file, without the ending
    caption: str
    draw: Callable[[], Figure]


def section_figures(part: Section) -> list[NamedFigure]:
    """Returns the loss curves of an experiment and the allocation of a typical run per method."""
    figures = _loss_figure(part)
    for row, runs in part.rows:
        typical = typical_run(runs) if row.learnt else None
        if typical is not None:
            figures += _run_figures(part, row, typical)
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
        f"Training loss, smoothed over {window} rounds: the mean over runs, and around it the "
        "90 % interval of that mean."
    )
    draw = partial(loss_bands, panels)
    return [NamedFigure(name=f"{part.expectation.experiment}-loss", caption=caption, draw=draw)]


def _run_figures(part: Section, row: ExpectedRow, record: RunRecord) -> list[NamedFigure]:
    """Returns the maps of one run, and its gates over time where they were recorded."""
    parts = (part.expectation.experiment, row.condition, row.method)
    stem = "-".join(text.replace(" ", "_").replace("/", "_") for text in parts if text)
    where = f" at {row.condition}" if row.condition else ""
    value = f"{measure(record) * part.expectation.factor:.3g}\u00a0{part.expectation.unit}".strip()
    which = (
        f"{row.label}{where}, seed {record.header.seed}, the run with the median result ({value})"
    )
    figures = [
        NamedFigure(
            name=f"{stem}-allocation",
            caption=f"Which components each task uses at the end. {which}.",
            draw=partial(allocation_map, record),
        ),
        NamedFigure(
            name=f"{stem}-similarity",
            caption=f"How alike the tasks' embeddings are. {which}.",
            draw=partial(similarity_map, record),
        ),
    ]
    if len(record.snapshots.rounds) > 1:
        task = record.header.task_names[0]
        caption = f"The gates of task {task} during training. {which}."
        draw = partial(probabilities_over_time, record)
        figures.append(NamedFigure(name=f"{stem}-gates", caption=caption, draw=draw))
    return figures
