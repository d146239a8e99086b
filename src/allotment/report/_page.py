"""The report: one page that needs nothing beside itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from ..records import RunRecord

from ._drawing import svg
from ._expectation import Expectation
from ._figures import section_figures
from ._provenance import Provenance, provenance
from ._section import Section, sections
from ._section_tables import section_tables
from ._tables import Table
from ._words import section_words


@dataclass(frozen=True, kw_only=True)
class _Picture:
    """A figure as the template needs it."""

    svg: str
    caption: str


@dataclass(frozen=True, kw_only=True)
class _View:
    """A section as the template needs it."""

    anchor: str
    title: str
    place: str
    words: list[str]
    provenance: Provenance | None  # None where nothing was run
    tables: list[Table]
    pictures: list[_Picture]


def html_page(
    records: Sequence[RunRecord],
    expectations: Sequence[Expectation],
    *,
    title: str = "Who uses what",
) -> str:
    """Returns the report as one HTML page with its figures and its style inside it."""
    views = [_view(part) for part in sections(records, expectations)]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(
        files("allotment.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
    )
    return template.render(title=title, n_runs=len(records), views=views)


def _view(part: Section) -> _View:
    return _View(
        anchor=part.expectation.experiment.replace(" ", "-"),
        title=part.expectation.title,
        place=part.expectation.place,
        words=section_words(part),
        provenance=provenance(part) if part.records else None,
        tables=section_tables(part),
        pictures=[
            _Picture(svg=svg(figure.draw()), caption=figure.caption)
            for figure in section_figures(part)
        ],
    )
