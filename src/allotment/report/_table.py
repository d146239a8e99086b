"""Tables of typed columns, for a page, a document or a terminal."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from math import inf
from typing import Generic, Literal, TypeVar

from ..analysis import Estimate, n_decimals

NOTHING = "–"
Item = TypeVar("Item")
Kind = Literal["name", "number", "text"]  # only a number is never broken into lines


class Place(Enum):
    """Where a table is shown; what is short of room has fewer columns."""

    PAGE = "page"
    TERMINAL = "terminal"


EVERYWHERE = frozenset(Place)


@dataclass(frozen=True)
class Column(Generic[Item]):
    """One column of a table of items."""

    heading: str
    cell: Callable[[Item], str]
    _: KW_ONLY
    kind: Kind = "number"
    optional: bool = False  # left out where no item has anything to say
    places: frozenset[Place] = EVERYWHERE
    note: str = ""  # what it means, where the heading does not say

    def is_shown_for(self, items: Iterable[Item]) -> bool:
        """Returns whether the column is shown: it is not optional, or says something of an item."""
        return not self.optional or any(self.cell(item) != NOTHING for item in items)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Text in rows and columns."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    kinds: tuple[Kind, ...] = ()  # of the columns; empty: all are numbers
    notes: tuple[str, ...] = ()  # what columns mean


def make_table(
    columns: Sequence[Column[Item]],
    items: Iterable[Item],
    caption: str = "",
    *,
    place: Place = Place.PAGE,
) -> Table:
    """Returns the table of some items, without the optional columns that say nothing.

    >>> columns = [
    ...     Column("Name", str.title, kind="name"),
    ...     Column("Remark", lambda name: NOTHING, optional=True),
    ... ]
    >>> make_table(columns, ["a", "b"])
    Table(head=('Name',), rows=(('A',), ('B',)), caption='', kinds=('name',), notes=())
    """
    every = list(items)
    shown = [each for each in columns if place in each.places and each.is_shown_for(every)]
    return Table(
        head=tuple(column.heading for column in shown),
        rows=tuple(tuple(column.cell(item) for column in shown) for item in every),
        caption=caption,
        kinds=tuple(column.kind for column in shown),
        notes=tuple(f"{column.heading}: {column.note}." for column in shown if column.note),
    )


def markdown_table(table: Table) -> str:
    """Returns a table in Markdown."""
    rule = tuple("---" for _ in table.head)
    rows = [[text.replace("|", "\\|") for text in row] for row in (table.head, rule, *table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


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


def spread_text(value: Estimate, bounds: tuple[float, float]) -> str:
    """Returns a mean with the 90 % interval of it in brackets, if there are several runs."""
    if value.n == 0:
        return NOTHING
    if value.n == 1:
        return f"{value.mean:.3g} (one run)"
    mean = f"{value.mean:.{n_decimals(value.half_width)}f}"
    return f"{mean} ({interval_text(value, bounds)})"


def number_text(value: float, form: str = ".2f") -> str:
    """Returns a number, or that there is none."""
    return NOTHING if value != value else f"{value:{form}}"


def not_run_text(names: Iterable[str]) -> str:
    """Returns which of several have no run; nothing where all have some."""
    listed = ", ".join(names)
    return f"Not run: {listed}." if listed else ""


def p_text(p: float, form: str = ".3f") -> str:
    """Returns a p-value, or that there is none; what is very small is not told apart."""
    return "below 0.001" if p < 0.001 else number_text(p, form)


def runs_text(n: int) -> str:
    """Returns how many runs there are."""
    return "1 run" if n == 1 else f"{n} runs"
