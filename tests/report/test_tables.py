from dataclasses import replace
from math import inf

from pytest import mark

from allotment.records import RunRecord
from allotment.report import ReportRow, brief_table, markdown_table, result_table, summary_text
from allotment.report._provenance import provenance
from allotment.report._section import section
from tests.records.made_up import a_header, a_record, accuracy_run, an_outcome, failed_run, loss_run
from tests.report.expected import MNIST, TWO_PAIRS, runs


def row_of(label: str, text: str) -> str:
    (row,) = [line for line in text.splitlines() if f"| {label} |" in line]
    return row


def test_every_expected_row_is_there_without_any_run() -> None:
    text = markdown_table(result_table([], MNIST))
    assert row_of("Shared bottom", text) == "| Shared bottom | 95.7 ± 0.5 | not run | – | – | – |"
    assert row_of("Gumbel-Matrix", text) == "| Gumbel-Matrix | 96.8 ± 0.2 | not run | – | – | – |"


def test_numbers_published_elsewhere_have_rows_of_their_own_below() -> None:
    spec = replace(MNIST, elsewhere={"Single task": "39.19 ± 0.50"})
    table = result_table([], spec)
    assert table.rows[:-1] == result_table([], MNIST).rows
    assert table.rows[-1] == ("Single task", "39.19 ± 0.50", "–", "–", "–", "–")


def test_a_row_has_our_value_with_its_spread_and_its_interval() -> None:
    # By hand: sd 0.1; half-width 2.919986 * 0.1 / sqrt(3) = 0.1686.
    found = runs("gumbel", [0.2, 0.3, 0.4], recovered=2)
    table = result_table(found, TWO_PAIRS)
    assert table.head == (
        "Method",
        "Paper",
        "Ours: loss over the last 300 rounds",
        "90 % interval of the mean",
        "Gates open",
        "One row a family",
        "Found the two pairs",
        "Failed",
    )
    assert table.rows[1] == (
        "Gumbel-Matrix",
        "–",
        "0.30 ± 0.10 sd (n=3)",
        "0.13 to 0.47",
        "38 %",
        "2 of 3",
        "2 of 3",
        "0 of 3",
    )


def test_an_interval_ends_where_the_number_cannot_be() -> None:
    # By hand: n = 2, so that the half-width is 6.313752 * sd / sqrt(2).
    losses = runs("gumbel", [0.2, 0.4])  # 0.3 with a half-width of 0.631
    where = result_table(losses, TWO_PAIRS).head.index("90 % interval of the mean")
    assert result_table(losses, TWO_PAIRS).rows[1][where] == "0.0 to 0.9"
    unbounded = replace(TWO_PAIRS, least=-inf)  # as of a likelihood
    assert result_table(losses, unbounded).rows[1][where] == "-0.3 to 0.9"
    header = {"experiment": "mnist", "method": "gumbel", "families": ()}
    high = [accuracy_run([level], seed, **header) for seed, level in enumerate((0.9, 1.0))]
    assert result_table(high, MNIST).rows[1][where] == "63.4 to 100.0"  # 95 with 31.569
    low = [accuracy_run([level], seed, **header) for seed, level in enumerate((0.0, 0.1))]
    assert result_table(low, MNIST).rows[1][where] == "0.0 to 36.6"
    (sentence,) = [text for text in summary_text(high, MNIST) if "reaches" in text]
    assert "95.0 % (90 % interval 63.4 to 100.0, n=2)" in sentence


@mark.parametrize(
    ("declared", "expected"),
    [
        (None, "each of 40 or 50 rounds"),
        (40, "each of 40 or 50 rounds, where the experiment has 40"),
        (8_000, "each of 40 or 50 rounds, where the experiment has 8,000"),
    ],
)
def test_runs_of_another_length_than_declared_say_so(declared: int | None, expected: str) -> None:
    runs = [a_record(a_header(seed=n), an_outcome(rounds=n)) for n in (40, 50)]
    found = provenance(section(runs, replace(TWO_PAIRS, rounds=declared))).runs
    assert found.endswith(expected)


def test_a_short_run_says_how_many_rounds_its_loss_is_the_mean_over() -> None:
    def of(*n_rounds: int) -> list[RunRecord]:
        return [
            a_record(a_header(seed=seed), an_outcome(rounds=n)) for seed, n in enumerate(n_rounds)
        ]

    for n_rounds, label in (
        ([20], "20"),
        ([300], "300"),
        ([301, 3_000], "300"),
        ([20, 3_000], "20 to 300"),
    ):
        head = result_table(of(*n_rounds), TWO_PAIRS).head
        assert f"Ours: loss over the last {label} rounds" in head
    assert "Ours: loss" in result_table([], TWO_PAIRS).head


def test_a_method_that_does_not_learn_its_allocation_finds_nothing() -> None:
    table = result_table([*runs("gumbel", [1.0]), *runs("no_sharing", [1.0])], TWO_PAIRS)
    assert table.rows[0][5:7] == ("–", "–")
    assert table.rows[1][5:7] == ("0 of 1", "0 of 1")


def test_accuracy_is_in_percent_and_collapse_is_counted() -> None:
    header = {"experiment": "mnist", "method": "gumbel", "families": ()}
    found = [
        accuracy_run([0.96, 0.97, 0.96, level], seed, **header)
        for seed, level in enumerate((0.95, 0.1))
    ]
    table = result_table(found, MNIST)
    assert table.head[-1] == "Collapsed"
    assert table.rows[1][2] == "85.4 ± 15.0 sd (n=2)"
    assert table.rows[1][-2:] == ("0 of 2", "1 of 2")
    assert table.rows[1][table.head.index("Median")] == "85.4"  # of 96.0 and 74.75


def test_failed_runs_are_named() -> None:
    some = result_table([loss_run(1.0, 0), failed_run(1)], TWO_PAIRS)
    assert some.rows[1][2] == "1 (n=1, no spread)"
    assert some.rows[1][-1] == "1 of 2"
    every = result_table([failed_run(0), failed_run(1)], TWO_PAIRS)
    assert every.rows[1][2] == "every run failed"


def test_conditions_have_a_column_and_unexpected_runs_a_row() -> None:
    found = [loss_run(1.0, 0, condition="rho=0"), loss_run(1.0, 0, method="my_own")]
    table = result_table(found, TWO_PAIRS)
    assert table.head[0] == "Condition"
    assert [row[:2] for row in table.rows[3:]] == [("rho=0", "Gumbel-Matrix"), ("–", "my_own")]


def test_a_condition_that_all_rows_have_is_said_in_the_title_alone() -> None:
    rows = tuple(replace(row, condition="clean") for row in TWO_PAIRS.rows)
    found = [loss_run(1.0, seed, condition="clean") for seed in range(3)]
    part = section(found, replace(TWO_PAIRS, rows=rows))
    assert part.spec.title == "Two pairs of tasks, clean"
    assert part.conditions == [""]
    assert [row.name for row in part.rows] == ["No sharing", "Gumbel-Matrix", "Shared bottom"]
    assert [len(row.runs) for row in part.rows] == [0, 3, 0]
    mixed = section(found, TWO_PAIRS)  # its own rows have none
    assert mixed.spec.title == TWO_PAIRS.title
    assert mixed.conditions == ["", "clean"]


def test_the_paper_has_a_column_where_it_says_something() -> None:
    assert result_table([], TWO_PAIRS).head[1] == "Paper"
    silent = replace(TWO_PAIRS, rows=tuple(replace(row, paper=None) for row in TWO_PAIRS.rows))
    assert result_table([], silent).head[:2] == ("Method", "Loss")  # ours beside no other


def test_a_terminal_shows_what_fits_it() -> None:
    row = ReportRow(method="gumbel", label="Gumbel-Matrix", paper="6.5 ± 0.3 (validation 5.7)")
    some = replace(row, condition="clean")
    spec = replace(MNIST, rows=(some,), elsewhere={"Single task": "39.19 ± 0.50"})
    table = brief_table([], spec)
    assert table.head == ("Method", "Paper", "Ours: test accuracy, %", "Gates open")
    assert table.rows == (("Gumbel-Matrix", "6.5 ± 0.3", "not run", "–"),)
    both = brief_table([], replace(spec, rows=(some, replace(row, condition="leaky"))))
    assert both.head == ("Condition", *table.head)
    assert [cells[0] for cells in both.rows] == ["clean", "leaky"]
    assert brief_table([], replace(spec, rows=(row,))) == table
    assert "Paper" not in brief_table([], replace(MNIST, rows=(replace(row, paper=None),))).head


def test_other_experiments_stay_out() -> None:
    assert {row[2] for row in result_table([loss_run(1.0, 0)], MNIST).rows} == {"not run"}
