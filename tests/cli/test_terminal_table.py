"""The table at the end of a launch: in 80 columns, and with numbers in one piece."""

from io import StringIO

from pytest import mark
from rich.console import Console

from allotment.cli._run import rich_table
from allotment.experiments import EXPERIMENTS
from allotment.report import Table, brief_table


def lines_of(table: Table) -> list[str]:
    out = StringIO()
    Console(file=out, width=80).print(rich_table(table))
    return out.getvalue().splitlines()


@mark.parametrize("name", EXPERIMENTS)
def test_names_and_numbers_of_every_experiment_fit(name: str) -> None:
    experiment = EXPERIMENTS[name]
    shown = brief_table([], experiment.expectation())
    number = "4.214 ± 0.009 sd (n=2)"
    place = next(k for k, head in enumerate(shown.head) if head.startswith("Ours"))
    rows = tuple((*row[:place], number, *row[place + 1 :]) for row in shown.rows)
    lines = lines_of(Table(head=shown.head, rows=rows))
    assert max(map(len, lines)) <= 80
    assert sum(number in line for line in lines) == len(rows)
    for method in experiment.methods:
        assert all(word in " ".join(lines) for word in method.label.split())


def test_a_long_name_takes_lines_and_a_long_head_too() -> None:
    label = "a method whose name is far longer than a terminal of eighty columns leaves room for it"
    head = ("Method", "Ours: loss over the last 300 rounds", "Found the two families")
    lines = lines_of(Table(head=head, rows=((label, "0.53 ± 0.05 sd (n=20)", "20 of 20"),)))
    assert max(map(len, lines)) <= 80
    assert sum("0.53 ± 0.05 sd (n=20)" in line and "20 of 20" in line for line in lines) == 1
    assert all(word in " ".join(lines) for word in label.split())


def test_a_unit_stays_with_what_it_measures() -> None:
    head = ("Method", "Ours: test accuracy, %")
    lines = lines_of(Table(head=head, rows=(("Gumbel-Matrix", "76.40 ± 0.07 sd (n=3)"),)))
    assert any(line.endswith("accuracy, %") for line in map(str.rstrip, lines))
