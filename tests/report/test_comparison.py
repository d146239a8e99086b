"""The page of comparisons: every method, what it reached, what it cost, and its rank."""

from typing import Any

import numpy as np

from allotment._schema import Evaluation
from allotment.records import RunRecord
from allotment.report import (
    ReportRow,
    ReportSpec,
    comparison_table,
    markdown_comparison,
    ranking_summary,
)
from allotment.report._section import section
from tests.records.made_up import a_header, a_record, an_evaluation, an_outcome

LABELS = {"shared_bottom": "Shared bottom", "gumbel": "Gumbel-Matrix", "mmoe": "MMoE"}


def a_spec(suite: str, **changes: Any) -> ReportSpec:
    values: dict[str, Any] = {
        "experiment": f"comparison_{suite}",
        "title": f"Comparison: {suite}",
        "place": "",
        "rows": tuple(ReportRow(method=name, label=label) for name, label in LABELS.items()),
        "measure": "Test accuracy",
        "unit": "%",
        "baseline": "shared_bottom",
    }
    return ReportSpec(**values | changes)


def runs(suite: str, method: str, accuracy: float, **changes: Any) -> list[RunRecord]:
    header = {"n_parameters": 12_345, "n_operations": 6_780_000} | changes
    return [
        a_record(
            a_header(
                experiment=f"comparison_{suite}",
                method=method,
                seed=seed,
                measure="accuracy",
                **header,
            ),
            an_outcome(
                test=an_evaluation(np.full(4, accuracy + 0.01 * seed)),
                n_used=np.array([100.0, 200.0, 300.0, 400.0]),
            ),
        )
        for seed in range(3)
    ]


def test_a_table_has_results_and_costs_and_rows_without_runs() -> None:
    spec = a_spec("digits", left_out={"No sharing": "too few components"})
    records = runs("digits", "shared_bottom", 0.9) + runs("digits", "gumbel", 0.92)
    table = comparison_table(section(records, spec))
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert list(rows) == ["Shared bottom", "Gumbel-Matrix", "MMoE", "No sharing"]
    found = rows["Gumbel-Matrix"]
    assert found["Test accuracy, %"] == "93.0 ± 1.0 sd (n=3)"
    assert found["Less Shared bottom"] == "+2.00 (+2.00 to +2.00)"
    assert found["Learning rate"] == "0.01"
    assert found["Parameters"] == "12,345"
    assert found["Used by a task"] == "250"
    assert found["MFLOPs a step"] == "6.78"
    assert found["Seconds a run"] == "2.5"
    assert rows["Shared bottom"]["Less Shared bottom"] == "–"
    assert rows["MMoE"]["Test accuracy, %"] == "not run"
    assert rows["No sharing"]["Test accuracy, %"] == "left out: too few components"


def test_older_records_have_no_costs() -> None:
    old = runs("digits", "gumbel", 0.9, n_parameters=0, n_operations=0)
    table = comparison_table(section(old, a_spec("digits")))
    row = dict(zip(table.head, table.rows[1], strict=True))
    assert row["Parameters"] == row["MFLOPs a step"] == "–"


def test_methods_are_ranked_over_the_suites_that_were_run() -> None:
    specs = [a_spec(suite) for suite in ("digits", "mnist", "census")]
    records = []
    for suite in ("digits", "mnist"):
        for place, method in enumerate(LABELS):
            records += runs(suite, method, 0.5 + 0.1 * place)
    page = markdown_comparison(records, specs)
    lines = page.splitlines()
    first = lines.index("| Method | Mean rank | Wins | Best and worst rank |")
    assert lines[first + 2] == "| MMoE | 1.00 | 2 | 1 to 1 |"
    assert lines[first + 4] == "| Shared bottom | 3.00 | 0 | 3 to 3 |"
    assert "3 methods on 2 suites: Friedman's chi-square is 4.00" in page
    assert "No two are that far apart: the first and the last by 2.00." in page
    assert "Not run yet; the command is `allotment run comparison_census`." in page


def test_pairs_that_are_far_apart_are_counted() -> None:
    suites = [f"suite {n}" for n in range(6)]  # the critical difference is 1.35 then
    records = [
        run
        for suite in suites
        for place, method in enumerate(LABELS)
        for run in runs(suite, method, 0.5 + 0.1 * place)
    ]
    page = markdown_comparison(records, [a_spec(suite) for suite in suites])
    assert "1 of 3 pairs are that far apart." in page


def test_a_method_without_a_result_on_a_suite_has_no_rank() -> None:
    records = [
        *runs("digits", "shared_bottom", 0.5),
        *runs("digits", "gumbel", 0.6),
        *runs("digits", "mmoe", 0.7),
        *runs("mnist", "shared_bottom", 0.5),
        *runs("mnist", "gumbel", 0.6),
    ]
    page = markdown_comparison(records, [a_spec("digits"), a_spec("mnist")])
    assert "Without a result on every suite, and so without a rank: MMoE." in page
    assert "2 methods on 2 suites: too few for the test." in page
    alone = markdown_comparison([], [a_spec("digits")])
    assert "Not run yet: no two methods have a result on one suite." in alone


def test_the_summary_names_the_best_rank_and_the_best_on_each_suite() -> None:
    specs = {suite: a_spec(suite) for suite in ("digits", "mnist", "census")}
    records = [
        *runs("digits", "shared_bottom", 0.5),
        *runs("digits", "gumbel", 0.6),
        *runs("digits", "mmoe", 0.7),
        *runs("mnist", "shared_bottom", 0.5),
        *runs("mnist", "gumbel", 0.6),
    ]
    assert ranking_summary(records, specs) == (
        "Of the 2 ways of sharing that ran on all 2 suites, each with the same search of learning "
        "rates, Gumbel-Matrix has the best mean rank, 1.0. No two differ significantly in mean "
        "rank (Nemenyi test at the 5 % level). The best on each suite, of all that fit it: "
        "MMoE on digits; Gumbel-Matrix on mnist."
    )


def test_scores_are_shown_task_by_task() -> None:
    nan = float("nan")
    metrics = {"AUC": np.array([0.9, 0.8, nan, nan]), "R2": np.array([nan, nan, 0.5, 0.2])}
    test = Evaluation(split="test", losses=np.zeros(4), accuracies=None, metrics=metrics)
    record = a_record(
        a_header(experiment="comparison_census", measure="score"), an_outcome(test=test)
    )
    spec = a_spec("census", measure="Mean test score", unit="")
    page = markdown_comparison([record], [spec])
    assert "| Gumbel-Matrix | 0.6 (n=1, no spread) |" in page  # (0.9 + 0.8 + 0.5 + 0.2) / 4
    assert "| Method | a1 (AUC) | a2 (AUC) | b1 (R2) | b2 (R2) |" in page
    assert "| Gumbel-Matrix | 0.9 | 0.8 | 0.5 | 0.2 |" in page
