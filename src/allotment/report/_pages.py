"""Records as pages: the HTML report, the results document, and the tables of the README."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.resources import files
from textwrap import fill

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ..records import RunRecord
from ._allocations import relatedness_tables, usage_tables
from ._drawing import NamedFigure, png, svg
from ._explorer import MAX_POINTS, MAX_ROUNDS, page_json
from ._figures import section_figures
from ._provenance import provenance, provenance_text
from ._results import (
    by_checkpoint,
    by_family,
    by_group,
    by_task,
    by_task_of_mixed,
    difference_table,
    section_table,
)
from ._section import Section, section, sections
from ._spec import OwnSection, ReportSpec
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
_LARGE_DRAWING = 200_000  # characters of SVG from which on PNG may take less
_MOST_TITLES = 3  # of experiments in the title of a page
_ROOM = 3_500_000  # characters for all pictures, which with maps leaves the page below 10 MB
# In the order in which they stand in the page's one script.
_SCRIPTS = ("core", "maps", "tree", "charts", "tables", "state", "parts", "explorer")
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
        by_checkpoint(part),
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


def html_page(records: Sequence[RunRecord], specs: Sequence[ReportSpec], *, title: str = "") -> str:
    """Returns the report as one HTML page, with figures, style, script and data inside it.

    Without a title it has those of the experiments.

    The page fetches nothing, and its policy lets no other script run than its own.
    """
    parts, pictures = sections(records, specs), _Pictures()
    views = [
        {
            "spec": part.spec,
            "anchor": part.spec.experiment.replace(" ", "-"),
            "sentences": section_text(part),
            "provenance": provenance(part) if part.records else None,
            "tables": section_tables(part),
            "pictures": pictures.of(part),
        }
        for part in parts
    ]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.from_string(_source("page.html.jinja")).render(
        title=title or _title(parts),
        n_runs=len(records),
        reading=_READING,
        views=views,
        style=_source("page/page.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        data=page_json(parts),
        most_rounds=MAX_ROUNDS,
        most_points=MAX_POINTS,
    )


def _title(parts: Sequence[Section]) -> str:
    titles = [part.spec.title for part in parts]
    return ", ".join(titles) if len(titles) <= _MOST_TITLES else f"{len(titles)} experiments"


class _Pictures:
    """Draws the figures of a page as long as there is room for them."""

    def __init__(self) -> None:
        self._room = _ROOM

    def of(self, part: Section) -> tuple[list[tuple[Markup, str]], int]:
        """Returns pictures with their captions, and how many there was no room for."""
        found = []
        figures = section_figures(part)
        for figure in figures if self._room > 0 else []:
            picture = _picture(figure)
            if len(picture) <= self._room:
                self._room -= len(picture)
                found.append((picture, figure.caption))
        return found, len(figures) - len(found)


def _picture(figure: NamedFigure) -> Markup:
    """Returns a drawing of ours, in which names are outlines and not text; a large one as PNG."""
    drawn = figure.draw()
    lines = svg(drawn)
    if len(lines) <= _LARGE_DRAWING:
        return Markup(lines)
    content = base64.b64encode(png(drawn)).decode()
    image = Markup('<img src="data:image/png;base64,{}" alt="{}">').format(content, figure.caption)
    return min(Markup(lines), image, key=len)


def _script() -> str:
    """Returns the page's script: its files one after another, in a scope of their own."""
    content = "\n".join(_source(f"page/{name}.js") for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{content}}})();\n'.replace("</", "<\\/")


def _source(name: str) -> str:
    return files("allotment.report").joinpath(name).read_text(encoding="utf-8")


def markdown_results(records: Sequence[RunRecord], specs: Sequence[ReportSpec]) -> str:
    """Returns the results page; its pictures are those of ``write_figures`` under ``figures/``."""
    return markdown_page("Results", _READING, records, specs)


def markdown_page(
    title: str, text: str, records: Sequence[RunRecord], specs: Sequence[ReportSpec]
) -> str:
    """Returns a page made from the kept results, with a section for each experiment."""
    head = f"# {title}\n\n{fill(f'{_ORIGIN} {text}', 100)}\n"
    return "\n".join([head, *(_section_text(part) for part in sections(records, specs))])


def markdown_part(
    title: str,
    text: str,
    own: OwnSection,
    records: Sequence[RunRecord],
    specs: Sequence[ReportSpec],
) -> str:
    """Returns a part of a page: what several experiments show together, and then each of them.

    Args:
        title: Its heading.
        text: What it is about.
        own: What the experiments show together.
        records: Their runs.
        specs: One for each experiment.

    >>> own = OwnSection(sentences=("They are equal.",))
    >>> print(markdown_part("Both", "Two experiments.", own, [], []))
    ## Both
    <BLANKLINE>
    Two experiments.
    <BLANKLINE>
    - They are equal.
    <BLANKLINE>
    """
    blocks = [f"## {title}", fill(text, 100), "\n".join(f"- {said}" for said in own.sentences)]
    head = _joined([*blocks, *_table_blocks(own.tables)])
    parts = [section(records, spec) for spec in specs]
    return "\n".join([head, *(_section_text(part, level=3) for part in parts)])


def _section_text(part: Section, level: int = 2) -> str:
    place = f" ({part.spec.place})" if part.spec.place else ""
    found = "\n".join(f"- {sentence}" for sentence in section_text(part))
    blocks = [
        f"{'#' * level} {part.spec.title}{place}",
        found,
        part.spec.remark,
        provenance_text(part),
    ]
    tables = _table_blocks(section_tables(part))
    pictures = [
        f"![{figure.caption}](figures/{figure.name}.png)\n\n*{figure.caption}*"
        for figure in section_figures(part)
    ]
    # A section of its own kind has one picture of all that its tables say.
    blocks += [*tables, *pictures] if part.own is None else [*pictures, *tables]
    return _joined(blocks)


def _table_blocks(tables: Iterable[Table]) -> list[str]:
    """Returns what stands in Markdown for each table: its caption, the table, and its notes."""
    return [
        block
        for table in tables
        for block in (
            f"{table.caption}:" if table.caption else "",
            markdown_table(table),
            " ".join(table.notes),
        )
    ]


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(block for block in blocks if block) + "\n"


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
