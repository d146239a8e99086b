from dataclasses import replace

import pytest

from allotment.report import ReportRow, summary_text
from tests.records.made_up import accuracy_run, failed_run
from tests.report.expected import MNIST, TWO_PAIRS, runs


def test_tasks_that_use_nothing_are_told_of() -> None:
    fine, shut = runs("gumbel", [0.3, 0.31])
    dead = replace(shut, outcome=replace(shut.outcome, dead={"b": [0], "d": [0]}))
    said = summary_text([fine, dead], TWO_PAIRS)
    assert sum("in 1 of 2 runs a task uses no component of some modular" in s for s in said) == 1
    assert any("gives zeros for it (b, d)" in sentence for sentence in said)
    assert not any("no component" in sentence for sentence in summary_text([fine], TWO_PAIRS))


def test_nothing_was_run() -> None:
    assert summary_text([], TWO_PAIRS) == ["Not run yet."]


@pytest.mark.parametrize(
    ("recovered", "expected"),
    [
        (3, "Gumbel-Matrix found the two pairs in 3 of 3 runs."),
        (1, "Gumbel-Matrix found the two pairs in 1 of 3 runs."),
        (0, "Gumbel-Matrix did not find the two pairs in any of 3 runs."),
    ],
)
def test_structure_is_read_from_the_runs(recovered: int, expected: str) -> None:
    assert (
        summary_text(runs("gumbel", [0.3, 0.3, 0.31], recovered=recovered), TWO_PAIRS)[0]
        == expected
    )


def test_the_best_method_is_named_first_and_each_is_set_beside_the_next() -> None:
    found = summary_text(
        [
            *runs("no_sharing", [0.5, 0.55, 0.6]),
            *runs("gumbel", [0.3, 0.31, 0.32], recovered=3),
            *runs("shared_bottom", [0.5, 0.6, 0.7]),
        ],
        TWO_PAIRS,
    )
    assert found[1:] == [
        "In training, Gumbel-Matrix ends at 0.310 (90 % interval 0.293 to 0.327, n=3), below "
        "No sharing with 0.55 (90 % interval 0.47 to 0.63, n=3); the two intervals are disjoint.",
        "Then comes Shared bottom with 0.60 (90 % interval 0.43 to 0.77, n=3); the two intervals "
        "overlap, so these runs do not settle the order.",
    ]


def test_runs_of_the_same_seeds_are_judged_by_their_differences() -> None:
    # Far apart over seeds, and always in the same order.
    found = [*runs("gumbel", [1.0, 3.0, 5.0]), *runs("no_sharing", [1.1, 3.2, 5.1])]
    said = summary_text(found, TWO_PAIRS)
    assert any(
        sentence.endswith(
            "the two intervals overlap, but that of the differences seed by seed leaves out 0."
        )
        for sentence in said
    )


def test_the_order_follows_the_numbers_and_not_the_hope() -> None:
    found = summary_text(
        [*runs("gumbel", [0.9, 0.91]), *runs("no_sharing", [0.1, 0.11])], TWO_PAIRS
    )
    assert found[1].startswith("In training, No sharing ends at 0.1")
    assert found[-1] == "Not run: Shared bottom."


def test_one_run_decides_nothing() -> None:
    found = summary_text([*runs("gumbel", [0.3]), *runs("no_sharing", [0.5])], TWO_PAIRS)
    assert found[1] == (
        "In training, Gumbel-Matrix ends at 0.3 (one run, no spread), below No sharing with 0.5 "
        "(one run, no spread); without a spread on both sides this decides nothing."
    )


def test_higher_accuracy_is_better() -> None:
    header = {"experiment": "mnist", "families": ()}
    found = [
        accuracy_run([level + shift] * 4, seed, method=method, **header)
        for method, level in (("shared_bottom", 0.95), ("gumbel", 0.97))
        for seed, shift in enumerate((0.0, 0.001, 0.002))
    ]
    (sentence,) = summary_text(found, MNIST)
    assert sentence.startswith(
        "On test, Gumbel-Matrix reaches 97.10 % (90 % interval 96.93 to 97.27, n=3)"
    )
    assert ", above Shared bottom with 95.10 %" in sentence


def test_failed_and_collapsed_runs_are_told() -> None:
    assert "Gumbel-Matrix: 1 of 3 runs failed and left out of the mean." in summary_text(
        [*runs("gumbel", [0.3, 0.3]), failed_run(9)], TWO_PAIRS
    )
    collapsed = accuracy_run([0.9, 0.9, 0.9, 0.1], experiment="mnist", method="gumbel", families=())
    assert "Gumbel-Matrix: 1 of 1 run collapsed on some task." in summary_text([collapsed], MNIST)


def test_many_methods_share_sentences() -> None:
    names = [f"way {n}" for n in range(9)]
    rows = tuple(ReportRow(method=name, label=name, learnt=True) for name in names)
    # The second method is better in one seed and worse in another; all others are far behind.
    ends = [[0.30, 0.31, 0.32], [0.31, 0.31, 0.315], *([0.6, 0.61, 0.62] for _ in names[2:])]
    found = [
        run
        for name, own, recovered in zip(names, ends, [1, 3, *[0] * 7], strict=True)
        for run in runs(name, own, recovered=recovered)
    ]
    said = summary_text(found, replace(TWO_PAIRS, rows=rows))
    shut_out = "; ".join(f"{name} 0 of 3" for name in names[2:])
    assert said == [
        f"Runs that found the two pairs: way 1 3 of 3; way 0 1 of 3; {shut_out}.",
        "In training, way 0 ends at 0.310 (90 % interval 0.293 to 0.327, n=3).",
        "These runs do not tell from it: way 1.",
        f"Behind it, by intervals or seed by seed, each judged alone: {'; '.join(names[2:])}.",
    ]
    *_, said_of_single = summary_text([found[0], *found[3:]], replace(TWO_PAIRS, rows=rows))
    assert said_of_single == (
        f"Without a spread on both sides, and so not judged: {'; '.join(names[1:])}."
    )
