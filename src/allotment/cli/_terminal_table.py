"""Tables of the report in a terminal."""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from ._output import printable

if TYPE_CHECKING:  # the report is slow to import
    from ..report import Table

HEAD_WIDTH = 12  # of a number's column: a head takes another line beyond it, or beyond the number


def print_table(console: Console, table: "Table") -> None:
    """Prints a table as wide as the terminal, or wider where it has to be.

    Where room is short, names, texts and heads take several lines, and numbers never.
    """
    table = _printable(table)
    gaps = 2 * (len(table.head) - 1)
    for least in (HEAD_WIDTH, 1):  # heads in as few lines as there is room for
        columns = _columns(table, least)
        needed = gaps + sum(column.width for column in columns)
        if needed <= console.width:
            break
    shown = RichTable(box=None, pad_edge=False, width=needed if needed > console.width else None)
    for column in columns:
        shown.add_column(escape(column.head), no_wrap=column.is_number, min_width=column.width)
    for row in table.rows:
        shown.add_row(*map(escape, row))  # a task may be called "[b]"
    console.print(shown, crop=False)


def _printable(table: "Table") -> "Table":
    rows = tuple(tuple(map(printable, row)) for row in table.rows)
    return replace(table, head=tuple(map(printable, table.head)), rows=rows)


def _columns(table: "Table", least: int) -> list["_Column"]:
    cells = list(zip(*table.rows, strict=True)) or [()] * len(table.head)
    are_numbers = [kind == "number" for kind in table.kinds] or [True] * len(table.head)
    return [_Column.of(*each, least) for each in zip(table.head, cells, are_numbers, strict=True)]


class _Column(NamedTuple):
    """How a column is shown: its head in lines, and the least width that breaks nothing apart."""

    head: str
    is_number: bool
    width: int

    @classmethod
    def of(cls, head: str, cells: Sequence[str], is_number: bool, least: int) -> "_Column":
        if not is_number:
            words = [word for text in (head, *cells) for word in text.split()]
            return cls(head, False, max(map(cell_len, words)))
        widest = max(map(cell_len, cells), default=0)
        kept = head.replace(", %", ",\xa0%")  # a unit alone on a line says nothing
        lines = wrap(kept, max(widest, least), break_long_words=False)
        width = max(widest, *map(cell_len, lines))
        return cls("\n".join(lines).replace("\xa0", " "), True, width)
