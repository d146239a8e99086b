"""The results in short, to stand in the README between two marks."""

from collections.abc import Sequence

from ..records import RunRecord

from ._expectation import Expectation
from ._markdown import markdown_table
from ._provenance import are_as_declared, rounds_in_words
from ._section import Section, sections
from ._tables import short_table

_SHORT = ("Found", "Families")  # columns beside the methods and the numbers


def readme_results(records: Sequence[RunRecord], expectations: Sequence[Expectation]) -> str:
    """Returns a short table for each experiment: its methods, the paper's value, ours with n."""
    return "\n\n".join(_short(part) for part in sections(records, expectations))


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
    expectation = part.expectation
    title = f"**{expectation.title}**"
    if expectation.place:
        title += f" ({expectation.place})"
    if not are_as_declared(part.records, expectation.rounds):
        title += f"; so far with runs {rounds_in_words(part.records, expectation.rounds)}"
    return f"{title}\n\n{markdown_table(short_table(part, _SHORT))}"
