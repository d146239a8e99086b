"""The table at the end of a sweep: numbers in one piece, and nothing lost."""

from dataclasses import replace
from io import StringIO
from typing import Any

from pytest import mark
from rich.console import Console

from allotment.cli._terminal_table import print_table
from allotment.paper import EXPERIMENTS
from allotment.report import Table, brief_table

NUMBER = "4.214 ± 0.009 sd (n=2)"
WIDEST = {"Paper": "6.75 ± 0.33", "Gates open": "100 %", "Found": "20 of 20"}


def lines_of(table: Table, width: int = 80) -> list[str]:
    out = StringIO()
    print_table(Console(file=out, width=width), table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def filled(name: str) -> Table:
    """Returns an experiment's table with numbers as long as they come."""
    shown = brief_table([], EXPERIMENTS[name].report_spec())
    texts = [next((WIDEST[k] for k in WIDEST if head.startswith(k)), None) for head in shown.head]
    texts[shown.rows[0].index("not run")] = NUMBER
    rows = [[new or old for old, new in zip(row, texts, strict=True)] for row in shown.rows]
    return replace(shown, rows=tuple(map(tuple, rows)))


@mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_fits_eighty_columns(name: str) -> None:
    lines = lines_of(filled(name))
    assert max(map(len, lines)) <= 80


@mark.parametrize("width", [20, 60, 80, 200])
@mark.parametrize("name", EXPERIMENTS)
def test_numbers_are_in_one_piece_and_no_word_is_lost(name: str, width: int) -> None:
    table = filled(name)
    lines = lines_of(table, width)
    assert sum(NUMBER in line for line in lines) == len(table.rows)
    words = sorted(" ".join(cell for row in (table.head, *table.rows) for cell in row).split())
    assert sorted(" ".join(lines).split()) == words


def test_a_long_name_and_a_long_head_take_several_lines() -> None:
    label = "a method whose name is far longer than a terminal of eighty columns leaves room for it"
    head = ("Method", "Ours: loss over the last 300 rounds", "Found the two families")
    kinds: tuple[Any, ...] = ("name", "number", "number")
    lines = lines_of(Table(head=head, rows=((label, "0.53", "20 of 20"),), kinds=kinds))
    assert max(map(len, lines)) <= 80
    assert not any("Ours:" in line and "rounds" in line for line in lines)
    assert sum(line.startswith("a method") and "20 of 20" in line for line in lines) == 1


def test_texts_take_several_lines_too_and_narrow_heads_where_there_is_no_other_room() -> None:
    head = ("Tasks with one embedding", *(f"max pool {k}" for k in range(7)))
    tasks = ", ".join(f"task {k}" for k in range(9))
    kinds: tuple[Any, ...] = ("text", *["number"] * 7)
    table = Table(head=head, rows=((tasks, *["100"] * 7),), kinds=kinds)
    assert max(map(len, lines_of(table))) <= 80
    assert not any("max pool 3" in line for line in lines_of(table))
    assert any("max pool 3" in line for line in lines_of(table, width=200))


def test_a_table_without_rows_has_its_head() -> None:
    assert lines_of(Table(head=("Method", "Gates open"), rows=())) == ["Method  Gates open"]


def test_a_unit_stays_with_what_it_measures() -> None:
    head = ("Method", "Ours: test accuracy, %")
    lines = lines_of(Table(head=head, rows=(("Gumbel-Matrix", "76.40 ± 0.07 sd (n=3)"),)))
    assert any(line.endswith("accuracy, %") for line in lines)


def test_brackets_are_no_markup() -> None:
    table = Table(head=("Method", "Found the [b] pairs"), rows=(("[i] of mine", "1 of 2"),))
    assert all(part in "\n".join(lines_of(table)) for part in ("[b]", "[i] of mine"))
