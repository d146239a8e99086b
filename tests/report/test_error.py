from dataclasses import replace

import numpy as np
from pytest import mark, raises

from allotment.report import ReportSpec, html_page, result_table, summary_text
from allotment.report._results import difference_table
from allotment.report._section import section
from tests.report.suites import OMNIGLOT, alphabets_run

SHARED = [
    alphabets_run(seed, method="shared_bottom", matrix=np.ones((20, 56))) for seed in range(3)
]
LEARNT = [alphabets_run(seed) for seed in range(3)]


def test_errors_are_what_accuracies_leave() -> None:
    # Accuracies 93.0, 93.1 and 93.2 % without sharing choices; 0.5 more with; validation 1 more.
    table = result_table([*SHARED, *LEARNT], OMNIGLOT)
    shown = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    assert [row["Ours: test error, %"] for row in shown] == [
        "6.90 ± 0.10 sd (n=3)",
        "6.40 ± 0.10 sd (n=3)",
    ]
    assert shown[0]["Validation error, %"] == "5.90 ± 0.10 sd (n=3)"
    assert shown[1]["90 % interval of the mean"] == "6.23 to 6.57"
    assert shown[1]["Median"] == "6.40"


def test_less_error_is_better() -> None:
    said = summary_text([*SHARED, *LEARNT], OMNIGLOT)
    assert said[0].startswith("On test, Gumbel-Matrix ends at 6.40 %")
    assert ", below Shared bottom with 6.90 %" in said[0]


def test_differences_have_the_sign_of_errors() -> None:
    worse = [alphabets_run(seed, method="shared_bottom") for seed in (1, 0, 2)]
    table = difference_table(section([*worse, *LEARNT], OMNIGLOT))
    assert table is not None
    (row,) = table.rows
    assert row[:2] == ("Gumbel-Matrix less Shared bottom", "-0.5000")


def test_errors_over_rounds_are_drawn() -> None:
    page = html_page([*SHARED, *LEARNT], [OMNIGLOT])
    assert "Validation error during training" in page
    assert "6.4\u00a0%" in page  # in the captions too


def test_what_is_shown_is_checked() -> None:
    with raises(ValueError, match="`shows` should be one of 'measure', 'error'"):
        ReportSpec(
            experiment="x", title="x", place="", rows=(), measure="Test accuracy", shows="accuracy"
        )


@mark.parametrize(
    ("n_runs", "spread"),
    # Errors at 1,750 to 2,250 and at 2,500 to 3,000 rounds, as `alphabets_run` has them.
    [(1, "-0.61 percentage points (one run, no spread)"), (3, "-0.6069 to -0.6047, n=3"), (0, "")],
)
def test_runs_shorter_than_declared_say_how_the_error_still_changes(
    n_runs: int, spread: str
) -> None:
    runs = LEARNT[:n_runs]
    n_rounds = LEARNT[0].outcome.rounds
    longer = replace(OMNIGLOT, rounds=8 * n_rounds)
    said = [sentence for sentence in summary_text(runs, longer) if "in place of" in sentence]
    assert len(said) == (n_runs > 0)
    for sentence in said:
        assert sentence.startswith(
            f"Gumbel-Matrix has {n_rounds:,} rounds in place of {8 * n_rounds:,}; "
        )
        assert spread in sentence
    as_declared = replace(OMNIGLOT, rounds=n_rounds)
    failed = replace(LEARNT[0], outcome=replace(LEARNT[0].outcome, status="failed", rounds=7))
    assert not any(
        "in place of" in sentence for sentence in summary_text([*runs, failed], as_declared)
    )
