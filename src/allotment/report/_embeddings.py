"""The embeddings of runs as they are shown on their own: tables to read and figures to write."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..analysis import relatedness, typical_run, usage_by_kind
from ..records import RunRecord

from ._drawing import png, svg
from ._expectation import Expectation, ExpectedRow
from ._figures import NamedFigure, embedding_figures
from ._relatedness import family_tables, group_table, relatedness_table, share_table
from ._section import Section, sections
from ._tables import Table
from ._usage import has_kinds, usage_table


@dataclass(frozen=True, kw_only=True)
class EmbeddingsView:
    """What is shown of one method's embeddings."""

    title: str
    tables: tuple[Table, ...]
    figures: tuple[NamedFigure, ...]


def embeddings_views(
    records: Sequence[RunRecord], expectations: Sequence[Expectation]
) -> list[EmbeddingsView]:
    """Returns a view of each method that learnt its allocation; of all where none did.

    Groups, clusters and figures are those of the run with the median result.
    """
    found = [
        (part, row, finished)
        for part in sections(records, expectations)
        for row, runs in part.rows
        if (finished := [run for run in runs if run.finished])
    ]
    learnt = [each for each in found if each[1].learnt]
    return [_view(*each) for each in learnt or found]


def write_views(views: Sequence[EmbeddingsView], folder: Path) -> list[Path]:
    """Writes the figures of views as PNG and as SVG and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for named in (named for view in views for named in view.figures):
        figure = named.draw()
        picture, drawing = folder / f"{named.name}.png", folder / f"{named.name}.svg"
        picture.write_bytes(png(figure))
        drawing.write_text(svg(figure), encoding="utf-8")
        paths += [picture, drawing]
    return paths


def _view(part: Section, row: ExpectedRow, runs: list[RunRecord]) -> EmbeddingsView:
    found = relatedness(runs)
    typical = typical_run(runs) or runs[0]  # a run may have no test accuracy to rank it by
    tables = [relatedness_table(row, found)]
    if found.known is not None:
        tables += family_tables(found.known, runs, row.name)
    tables.append(group_table(typical, row.name))
    tables.append(share_table(typical.header.task_names, found))
    if has_kinds(typical):
        tables.append(usage_table(usage_by_kind(runs), row.name, len(runs)))
    n_runs = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    many = len(typical.header.task_names) > 1  # one task alone is like nothing
    return EmbeddingsView(
        title=f"{part.expectation.experiment}: {row.name} ({n_runs})",
        tables=tuple(tables),
        figures=tuple(embedding_figures(part, row, typical)) if many else (),
    )
