"""A line of advice at the end of what the runs of an experiment show."""

from dataclasses import replace

import numpy as np
from pytest import mark

from allotment._schema import Floats
from allotment.records import RunRecord
from allotment.report import ReportRow, summary_text
from tests.records.made_up import PAIRS, a_header, a_record, an_evaluation, an_outcome
from tests.report.expected import MNIST, TWO_PAIRS

ALL, OWN = np.ones((4, 4)), np.eye(4)


def method_runs(
    method: str, matrix: Floats, losses: list[float], condition: str = ""
) -> list[RunRecord]:
    is_learnt = method == "gumbel"
    probabilities = 0.05 + 0.9 * matrix if is_learnt else matrix
    return [
        a_record(
            a_header(method=method, seed=seed, condition=condition),
            an_outcome(final_loss=loss, matrix=matrix, probabilities=probabilities),
        )
        for seed, loss in enumerate(losses)
    ]


def advice_of(records: list[RunRecord], spec: object = TWO_PAIRS) -> list[str]:
    said = summary_text(records, spec)  # type: ignore[arg-type]
    found = [sentence for sentence in said if sentence.startswith("Advice")]
    assert said[len(said) - len(found) :] == found  # at the end
    return found


SHARED = method_runs("shared_bottom", ALL, [0.50, 0.51, 0.52])
SEPARATE = method_runs("no_sharing", OWN, [0.60, 0.61, 0.62])


@mark.parametrize(
    ("losses", "expected"),
    [
        ([0.30, 0.31, 0.32], "Advice: learnt gates. Mean training loss beside learnt gates: "),
        ([0.55, 0.56, 0.57], "Advice: shared bottom. Mean training loss beside shared bottom: "),
        ([0.10, 0.46, 0.90], "Advice: shared bottom. "),  # 5 % or less, within chance
        ([0.05, 0.40, 0.90], "Advice: cannot tell. "),
    ],
)
def test_the_runs_of_all_three_ways_decide(losses: list[float], expected: str) -> None:
    (line,) = advice_of([*SHARED, *SEPARATE, *method_runs("gumbel", PAIRS, losses)])
    assert line.startswith(expected)
    assert "Not run" not in line


def test_a_way_that_was_not_run_is_named() -> None:
    (line,) = advice_of([*SHARED, *method_runs("gumbel", PAIRS, [0.30, 0.31, 0.32])])
    assert line.endswith("over 3 seeds. Not run: separate networks.")


def test_gates_that_have_not_settled_come_first() -> None:
    learnt = [
        replace(run, outcome=replace(run.outcome, probabilities=0.4 + 0.2 * PAIRS))
        for run in method_runs("gumbel", PAIRS, [0.55, 0.56, 0.57])
    ]
    (line,) = advice_of([*SHARED, *SEPARATE, *learnt])
    assert line.startswith("Advice: shared bottom. Learnt gates have not settled (100 % are")


def test_nothing_is_said_without_learnt_gates_or_baselines() -> None:
    learnt = method_runs("gumbel", PAIRS, [0.3, 0.31, 0.32])
    assert advice_of([*SHARED, *SEPARATE]) == []
    assert advice_of(learnt) == []


def test_accuracies_are_compared_on_validation_and_never_on_test() -> None:
    def runs(method: str, matrix: Floats, validation: float, test: float) -> list[RunRecord]:
        return [
            a_record(
                a_header(experiment="mnist", method=method, seed=seed, measure="accuracy"),
                an_outcome(
                    matrix=matrix,
                    validation=an_evaluation(np.full(4, validation + 0.001 * seed), "validation"),
                    test=an_evaluation(np.full(4, test + 0.001 * seed)),
                ),
            )
            for seed in range(3)
        ]

    found = [*runs("shared_bottom", ALL, 0.90, 0.99), *runs("gumbel", PAIRS, 0.95, 0.80)]
    (line,) = advice_of(found, MNIST)
    assert line.startswith("Advice: learnt gates. Mean validation error beside learnt gates")


def test_training_losses_are_compared_on_validation_where_there_is_one() -> None:
    def runs(method: str, matrix: Floats, validation: float, training: float) -> list[RunRecord]:
        seen = an_evaluation(split="validation")
        return [
            a_record(
                a_header(method=method, seed=seed),
                an_outcome(
                    matrix=matrix,
                    final_loss=training,
                    validation=replace(seen, losses=np.array([validation + 0.01 * seed] * 4)),
                ),
            )
            for seed in range(3)
        ]

    found = [*runs("shared_bottom", ALL, 0.2, 0.9), *runs("gumbel", PAIRS, 0.5, 0.1)]
    (line,) = advice_of(found)
    assert line.startswith("Advice: shared bottom. Mean validation loss beside shared bottom")
    assert summary_text(found, TWO_PAIRS)[1].startswith("In training, Gumbel-Matrix ends at 0.10 ")


def test_conditions_have_a_line_each_unless_they_are_many() -> None:
    def under(n: int) -> list[RunRecord]:
        return [
            run
            for place in range(n)
            for run in (
                *method_runs("shared_bottom", ALL, [0.5, 0.51], f"rho={place}"),
                *method_runs("gumbel", PAIRS, [0.3, 0.31], f"rho={place}"),
            )
        ]

    rows = (ReportRow(method="gumbel", label="Gumbel-Matrix", learnt=True, condition="rho=0"),)
    spec = replace(TWO_PAIRS, rows=rows)
    assert [line[:20] for line in advice_of(under(2), spec)] == [
        "Advice at rho=0: lea",
        "Advice at rho=1: lea",
    ]
    assert advice_of(under(3), spec) == []
