"""Records as pages: the HTML report, the results document, and the tables of the README."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from textwrap import fill

from jinja2 import Environment, StrictUndefined

from ..records import RunRecord
from ._allocations import relatedness_tables, usage_tables
from ._drawing import svg
from ._figures import section_figures
from ._provenance import are_as_declared, provenance, provenance_text, rounds_text
from ._results import (
    by_family,
    by_group,
    by_task,
    by_task_of_mixed,
    difference_table,
    section_table,
)
from ._section import Section, section, sections
from ._spec import ReportSpec
from ._summary import section_text
from ._table import Place, Table, markdown_table
from ._tradeoff import tradeoff_table

_READING = (
    "Each of our numbers is a mean over runs with their standard deviation (sd); intervals are "
    "90 % Student-t intervals of that mean, cut off where it cannot be, such as below 0 % or above "
    "100 %. Gates open: the share of gates that are open in evaluation. Components used, where "
    "tasks have shares of components: the effective number of them (the exponential of the entropy "
    "of a task's shares) over all. A failed run met a loss that was not finite and is left out of "
    "the mean; a collapsed one ended with some task at no more than 1.5 times chance and stays in "
    "it."
)
_ORIGIN = "Written by `make docs` from the kept runs in `results/`; a change by hand would be lost."


def section_tables(part: Section) -> list[Table]:
    """Returns the results, in all, by seed and by group; then embeddings, components, tasks."""
    if part.own is not None:
        return list(part.own.tables)
    extra = [make(row.name, row.finished) for make in part.spec.extra_tables for row in part.learnt]
    tables = [
        section_table(part),
        tradeoff_table(part) if part.spec.over else None,
        difference_table(part),
        by_family(part),
        by_group(part),
        *relatedness_tables(part),
        *usage_tables(part),
        *extra,
        by_task(part),
        *by_task_of_mixed(part),
    ]
    return [table for table in tables if table is not None]


def brief_table(records: Sequence[RunRecord], spec: ReportSpec) -> Table:
    """Returns the table with what fits a terminal: each method, its number, gates, structure.

    What stands in brackets behind the paper's value, and what others published, is for the page.
    """
    own = section(records, spec).own
    if own is not None and own.brief is not None:
        return own.brief
    rows = tuple(replace(row, paper=row.paper and row.paper.split(" (")[0]) for row in spec.rows)
    return section_table(section(records, replace(spec, rows=rows, elsewhere={})), Place.TERMINAL)


def html_page(
    records: Sequence[RunRecord], specs: Sequence[ReportSpec], *, title: str = "Who uses what"
) -> str:
    """Returns the report as one HTML page with its figures and its style inside it."""
    views = [
        {
            "spec": part.spec,
            "anchor": part.spec.experiment.replace(" ", "-"),
            "sentences": section_text(part),
            "provenance": provenance(part) if part.records else None,
            "tables": section_tables(part),
            "pictures": [(svg(each.draw()), each.caption) for each in section_figures(part)],
        }
        for part in sections(records, specs)
    ]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(
        files("allotment.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
    )
    return template.render(title=title, n_runs=len(records), reading=_READING, views=views)


def markdown_results(records: Sequence[RunRecord], specs: Sequence[ReportSpec]) -> str:
    """Returns the results page; its pictures are those of ``write_figures`` under ``figures/``."""
    return markdown_page("Results", _READING, records, specs)


def markdown_page(
    title: str, text: str, records: Sequence[RunRecord], specs: Sequence[ReportSpec]
) -> str:
    """Returns a page made from the kept results, with a section for each experiment."""
    head = f"# {title}\n\n{fill(f'{_ORIGIN} {text}', 100)}\n"
    return "\n".join([head, *(_section_text(part) for part in sections(records, specs))])


def _section_text(part: Section) -> str:
    place = f" ({part.spec.place})" if part.spec.place else ""
    found = "\n".join(f"- {sentence}" for sentence in section_text(part))
    blocks = [f"## {part.spec.title}{place}", found, part.spec.remark, provenance_text(part)]
    for table in section_tables(part):
        blocks += [f"{table.caption}:" if table.caption else "", markdown_table(table)]
    blocks += [
        f"![{figure.caption}](figures/{figure.name}.png)\n\n*{figure.caption}*"
        for figure in section_figures(part)
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def readme_results(records: Sequence[RunRecord], specs: Sequence[ReportSpec]) -> str:
    """Returns a short table for each experiment: its methods, the paper's value, ours with n."""
    return "\n\n".join(_short(part) for part in sections(records, specs))


def with_block(text: str, name: str, content: str) -> str:
    """Returns ``text`` with ``content`` between its marks ``<!-- name -->`` and ``<!-- /name -->``.

    >>> print(with_block("<!-- sum -->? <!-- /sum -->", "sum", "1 + 1 = 2"))
    <!-- sum -->
    1 + 1 = 2
    <!-- /sum -->
    """
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, opened, rest = text.partition(opening)
    _, closed, after = rest.partition(closing)
    if not (opened and closed) or opening in after:
        raise ValueError(f"The text should hold `{opening}` and then `{closing}`, once each.")
    return f"{before}{opening}\n{content}\n{closing}{after}"


def _short(part: Section) -> str:
    spec = part.spec
    title = f"**{spec.title}**"
    if spec.place:
        title += f" ({spec.place})"
    if not are_as_declared(part.records, spec.rounds):
        title += f"; so far with runs {rounds_text(part.records, spec.rounds)}"
    return f"{title}\n\n{markdown_table(section_table(part, Place.README))}"
