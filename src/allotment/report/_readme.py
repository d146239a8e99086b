"""The few results that stand in the README."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..records import RunRecord
from ._section import Section, sections
from ._spec import ReportSpec
from ._table import NOTHING, Column, make_table, markdown_table


@dataclass(frozen=True)
class Headline:
    """A row of the README: an experiment, and its methods in three columns.

    Attributes:
        experiment: Its name.
        label: What the row is called.
        alone: The method that shares nothing; empty: there is none.
        shared: The one that shares everything.
        learnt: The one that learns what to share.

    >>> Headline("digits", "Small digits", "no_sharing", "shared_bottom", "gumbel").learnt
    'gumbel'
    """

    experiment: str
    label: str
    alone: str
    shared: str
    learnt: str


def readme_results(
    records: Sequence[RunRecord], specs: Sequence[ReportSpec], headlines: Sequence[Headline]
) -> str:
    """Returns one table: for each headline what separate networks, sharing and gates reached."""
    parts = {part.spec.experiment: part for part in sections(records, specs)}

    def reached(method: str, headline: Headline) -> str:
        return _reached(parts[headline.experiment], method)

    columns: list[Column[Headline]] = [
        Column("Tasks", lambda row: row.label, kind="name"),
        Column("Measure", lambda row: parts[row.experiment].measure_label, kind="text"),
        Column("Nothing shared", lambda row: reached(row.alone, row)),
        Column("All shared", lambda row: reached(row.shared, row)),
        Column("Learnt gates", lambda row: reached(row.learnt, row)),
    ]
    known = [headline for headline in headlines if headline.experiment in parts]
    return markdown_table(make_table(columns, known)) if known else "Nothing was run yet."


def _reached(part: Section, method: str) -> str:
    if not method:
        return NOTHING
    (row,) = (row for row in part.rows if row.spec.method == method)
    value = part.spec.shown(row.summary.measure) if row.runs else None
    return str(value) if value is not None and value.n else "not run"
