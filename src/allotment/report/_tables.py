"""The paper's value beside ours, with empty rows kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from ..analysis import (
    Estimate,
    Summary,
    distinct_by_family,
    embeddings,
    family_names,
    n_decimals,
    summarise,
)
from ..records import RunRecord

from ._expectation import Expectation, ExpectedRow
from ._section import Section, has_many_tasks, section

NOTHING = "–"
_VALIDATION = "Validation error, %"
_UNIFORM = "One row a family"
# Where one row for each family is much to ask:
_AS_CLUSTERS = "Found the families, as clusters"
_UNIFORM_ONES = "Families with one row"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Text in rows and columns, for a page, a document or a terminal."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


def result_table(records: Sequence[RunRecord], expectation: Expectation) -> Table:
    """Returns the table of an experiment: every expected row, run or not, and every other run."""
    return section_table(section(records, expectation))


def section_table(part: Section) -> Table:
    """Returns the table of a section, without the columns that have nothing to say."""
    columns = [_cells(part, row, runs) for row, runs in part.rows]
    for label, value in part.expectation.elsewhere.items():
        columns.append(dict.fromkeys(columns[0], NOTHING) | {"Method": label, "Paper": value})
    found = f"Found {part.expectation.structure}"
    structure = {found, _UNIFORM, _AS_CLUSTERS, _UNIFORM_ONES}
    optional = {"Condition", "Paper", _VALIDATION, "Median", *structure, "Collapsed"}
    head = [
        name
        for name in (columns[0] if columns else {})
        if name not in optional or any(cells[name] != NOTHING for cells in columns)
    ]
    return Table(
        head=tuple(head), rows=tuple(tuple(cells[name] for name in head) for cells in columns)
    )


def brief_table(records: Sequence[RunRecord], expectation: Expectation) -> Table:
    """Returns the table with what fits a terminal: each method, its number, gates, structure.

    What stands in brackets behind the paper's value, and what others published, is for the page.
    """
    rows = tuple(
        replace(row, paper=row.paper and row.paper.split(" (")[0]) for row in expectation.rows
    )
    part = section(records, replace(expectation, rows=rows, elsewhere={}))
    return short_table(part, ("Gates open", "Found"))


def short_table(part: Section, wanted: tuple[str, ...]) -> Table:
    """Returns a section's table with its methods, both numbers, and the ``wanted`` columns."""
    table = section_table(part)
    names = ("Condition", "Method", "Paper", _our_head(part), *wanted)
    places = [place for place, name in enumerate(table.head) if name.startswith(names)]
    return Table(
        head=tuple(table.head[place] for place in places),
        rows=tuple(tuple(row[place] for place in places) for row in table.rows),
    )


def interval_text(value: Estimate, bounds: tuple[float, float] = (-inf, inf)) -> str:
    """Returns the ends of the 90 % interval of a mean, or that there is none.

    Runs that differ much give an interval that leaves the ``bounds`` of what the mean can be; what
    lies beyond them is cut off.
    """
    if value.n < 2:
        return NOTHING
    digits = n_decimals(value.half_width)
    low, high = (min(max(end, bounds[0]), bounds[1]) for end in value.interval)
    return f"{low:.{digits}f} to {high:.{digits}f}"


def _cells(part: Section, row: ExpectedRow, runs: list[RunRecord]) -> dict[str, str]:
    """Returns a row's text under each column's name."""
    expectation = part.expectation
    found = summarise(runs)
    value = expectation.shown(found.measure)
    validation = expectation.shown(found.validation)
    many = bool(runs) and has_many_tasks(runs[0])
    return {
        "Condition": row.condition or NOTHING,
        "Method": row.label,
        "Paper": row.paper or NOTHING,
        _our_head(part): _value_text(value, found),
        "90 % interval of the mean": interval_text(value, expectation.bounds),
        _VALIDATION: str(validation) if expectation.shows_error and validation.n else NOTHING,
        "Median": _median_text(value, runs),
        "Gates open": f"{100 * found.share_active.mean:.0f} %" if value.n else NOTHING,
        _UNIFORM: _count_text(row, None if many else found.n_uniform, found),
        f"Found {expectation.structure}": _count_text(
            row, None if many else found.n_recovered, found
        ),
        _AS_CLUSTERS: _count_text(row, found.n_separated if many else None, found),
        _UNIFORM_ONES: _uniform_ones(row, runs) if many else NOTHING,
        "Failed": f"{found.n_failed} of {found.n_runs}" if runs else NOTHING,
        "Collapsed": (
            f"{found.n_collapsed} of {found.n_runs}"
            if runs and runs[0].header.measure == "accuracy"
            else NOTHING
        ),
    }


def _our_head(part: Section) -> str:
    """Returns the head of the column with our numbers; "ours" where there are others beside it."""
    label = part.measure_label
    beside = any(row.paper for row, _ in part.rows) or part.expectation.elsewhere
    return f"Ours: {_lower(label)}" if beside else label


def _value_text(value: Estimate, found: Summary) -> str:
    if found.n_runs == 0:
        return "not run"
    return str(value) if value.n else "every run failed"


def _median_text(value: Estimate, runs: list[RunRecord]) -> str:
    """Returns the median, which says more than the mean where a run may collapse."""
    if value.n < 2 or runs[0].header.measure != "accuracy":
        return NOTHING
    return f"{value.median:.{n_decimals(value.half_width)}f}"


def _count_text(row: ExpectedRow, n_found: int | None, found: Summary) -> str:
    if not row.learnt or n_found is None:
        return NOTHING
    return f"{n_found} of {found.n_runs - found.n_failed}"


def _uniform_ones(row: ExpectedRow, runs: Sequence[RunRecord]) -> str:
    """Returns the families whose tasks share one row, and in how many of the runs."""
    finished = [run for run in runs if run.finished]
    if not row.learnt or not finished or not finished[0].header.families:
        return NOTHING
    families = finished[0].header.families
    distinct = [distinct_by_family(embeddings(run), families) for run in finished]
    counts = [sum(n == 1 for n in of_family) for of_family in zip(*distinct, strict=True)]
    named = zip(family_names(families), counts, strict=True)
    return ", ".join(f"{name} {n} of {len(finished)}" for name, n in named if n) or "none"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
