from allotment.report import words
from allotment.report._section import section, sections
from allotment.report._usage import usage_tables
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


def test_letters_are_no_kinds() -> None:
    assert usage_tables(section(runs("gumbel", [1.0]), MNIST)) == []


def test_the_papers_trends_are_judged_one_by_one() -> None:
    said = [
        each for each in words([alphabets_run(0), alphabets_run(1)], OMNIGLOT) if "trend" in each
    ]
    assert len(said) == 3
    assert all("It holds over all runs together, and it holds in 2 of 2 alone" in s for s in said)
    broken = alphabets_run(1, matrix=1 - alphabets_run(1).outcome.matrix)
    said = [each for each in words([alphabets_run(0), broken], OMNIGLOT) if "trend" in each]
    assert all("It does not hold over all runs together" in sentence for sentence in said[1:])
    assert said[2].endswith(
        "and it holds in 1 of 2 alone: average pooling is open for 50 % of the tasks, each of the "
        "rest for at least 50 %."
    )
