from dataclasses import replace

from allotment.records import RunRecord
from allotment.report._allocations import usage_tables
from allotment.report._pages import section_tables
from allotment.report._section import section, sections
from tests.report.expected import MNIST, runs
from tests.report.suites import KINDS, OMNIGLOT, alphabets_run, clusters_run


def test_a_row_for_each_layer_and_a_column_for_each_kind() -> None:
    (table,) = usage_tables(section([alphabets_run(seed) for seed in range(2)], OMNIGLOT))
    assert table.head == ("Layer", *KINDS, "Tasks differ")
    assert len(table.rows) == 8
    assert table.rows[4] == ("5", "100", "100", "100", "100", "100", "50", "100", "8")
    assert table.rows[7][1 + KINDS.index("average pool")] == "0"
    assert "over tasks and 2 runs" in table.caption


def test_copies_of_a_kind_are_one_column() -> None:
    table, by_family = usage_tables(sections([clusters_run()], [])[0])
    assert by_family.head == ("Family", "Layer", "conv3x3", "conv5x5")
    assert [row[:2] for row in by_family.rows[:4]] == [
        *(("CIFAR-100", layer) for layer in "123"),
        ("MNIST", "1"),
    ]
    assert table.head == ("Layer", "conv3x3", "conv5x5", "Tasks differ")


def test_kinds_that_tell_nothing_apart_have_no_table() -> None:
    assert usage_tables(section(runs("gumbel", [1.0]), MNIST)) == []


def test_tables_of_one_experiment_alone_come_with_its_spec() -> None:
    def claims(*found: RunRecord) -> list[tuple[str, ...]]:
        tables = section_tables(section(found, OMNIGLOT))
        (table,) = [table for table in tables if table.caption.startswith("Three trends")]
        return list(table.rows)

    rows = claims(alphabets_run(0), alphabets_run(1))
    assert [row[1:3] for row in rows] == [("holds", "2 of 2")] * 3
    broken = alphabets_run(1, matrix=1 - alphabets_run(1).outcome.matrix)
    rows = claims(alphabets_run(0), broken)
    assert [row[1] for row in rows[1:]] == ["does not hold"] * 2
    assert rows[2][2:] == (
        "1 of 2",
        "average pooling is open for 50 % of the tasks, each of the rest for at least 50 %",
    )
    without = section_tables(section([alphabets_run(0)], replace(OMNIGLOT, extra_tables=())))
    assert len(without) == len(section_tables(section([alphabets_run(0)], OMNIGLOT))) - 1
