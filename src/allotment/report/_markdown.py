"""The results as a document to stand in the repository."""

from collections.abc import Sequence

from ..records import RunRecord

from ._expectation import Expectation
from ._figures import section_figures
from ._provenance import provenance
from ._section import Section, sections
from ._section_tables import section_tables
from ._tables import Table
from ._words import section_words

_HEAD = """\
# Results

Written by `make docs` from the kept runs in `results/`; a change by hand would be lost. Each of our
numbers is a mean over runs with their standard deviation (sd); intervals are 90 % Student-t
intervals of that mean, cut off where it cannot be, such as below 0 % or above 100 %. Gates open:
the share of gates that are open in evaluation. A failed run met a loss that was not finite and is
left out of the mean; a collapsed one ended with some task at no more than 1.5 times chance and
stays in it.
"""


def markdown_results(records: Sequence[RunRecord], expectations: Sequence[Expectation]) -> str:
    """Returns the results page; its pictures are those of ``write_figures`` under ``figures/``."""
    parts = sections(records, expectations)
    return "\n".join([_HEAD, *(_section_text(part) for part in parts)])


def markdown_table(table: Table) -> str:
    """Returns a table in Markdown."""
    rule = tuple("---" for _ in table.head)
    lines = [" | ".join(_cell(text) for text in row) for row in (table.head, rule, *table.rows)]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _section_text(part: Section) -> str:
    expectation = part.expectation
    place = f" ({expectation.place})" if expectation.place else ""
    found = "\n".join(f"- {sentence}" for sentence in section_words(part))
    blocks = [f"## {expectation.title}{place}", found, expectation.remark, _provenance_text(part)]
    for table in section_tables(part):
        blocks += [f"{table.caption}:" if table.caption else "", markdown_table(table)]
    blocks += [
        f"![{figure.caption}](figures/{figure.name}.png)\n\n*{figure.caption}*"
        for figure in section_figures(part)
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _command_text(command: str, note: str) -> str:
    return f"`{command}` {note}".strip() if command else note


def _provenance_text(part: Section) -> str:
    """Returns the lines above a table: what ran, where, and from which commit."""
    found = provenance(part)
    if not part.records:
        return ""
    lines = [
        "Command: " + "; ".join(_command_text(*command) for command in found.commands),
        f"Device: {'; '.join(found.devices)}",
        f"Runs: {found.runs}, trained for {found.time} in all",
        f"Commit: {'; '.join(found.commits)} ({'; '.join(found.versions)})",
        found.note,
    ]
    return "  \n".join(line for line in lines if line)
