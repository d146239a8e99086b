"""Advice from a training's baselines, and from its own numbers alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np
import torch
from pytest import mark, param

from allotment._schema import Evaluation, Floats
from allotment.training import Advice, Baselines, FitResult, advise, fit
from tests.records.made_up import an_entry, an_outcome
from tests.training.situations import SETTINGS, SITUATIONS, Situation, a_network_for

NAMES = ("a1", "a2", "b1", "b2")
BLOCKS = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1], [0, 1, 1, 1]], dtype=float)


def advised(situation: Situation, seed: int = 0) -> Advice:
    tasks = situation.tasks(torch.Generator().manual_seed(seed))
    return advise(fit(a_network_for(tasks, seed), tasks, SETTINGS, baselines=True))


# One for each way, and those that are trained fastest.
FAST = (
    "one task of noise beside a family",
    "a tiny task beside a large one like it",
    "opposite targets for the same inputs",
)


@mark.parametrize(
    "situation", [param(each, id=each.name) for each in SITUATIONS if each.name in FAST]
)
def test_the_advice_is_right_where_the_answer_is_known(situation: Situation) -> None:
    assert advised(situation).recommendation == situation.right, situation.reason


@mark.slow
def test_the_advice_is_right_in_seven_of_eight_situations() -> None:
    seeds = range(3)  # of the tasks and of the first weights
    wrong = [
        f"{each.name}, seed {seed}: {found.line} It should be {each.right}: {each.reason}"
        for each in SITUATIONS
        for seed in seeds
        if (found := advised(each, seed)).recommendation != each.right
    ]
    assert len(SITUATIONS) == 8
    assert len(wrong) <= len(seeds), "\n".join(wrong)


def a_result(matrix: Floats = BLOCKS, **changes: Any) -> FitResult:
    values: dict[str, Any] = {
        "embeddings": matrix,
        "probabilities": 0.02 + 0.96 * matrix,
        "history": [an_entry(losses=np.full(4, 0.2))],
        "validation": an_evaluation([0.2, 0.2, 0.2, 0.2]),
        "test": None,
        "best_round": None,
        "failed_step": None,
        "rounds": 50,
        "rounds_planned": 50,
        "was_interrupted": False,
        "task_names": NAMES,
        "component_names": tuple("ABCD"),
        "layer_sizes": (4,),
        "are_optional": (False,),
        "is_learnt": True,
        "is_binary": True,
        "n_examples": dict.fromkeys(NAMES, 100),
    }
    return FitResult(**values | changes)


def an_evaluation(losses: list[float], **changes: Any) -> Evaluation:
    values: dict[str, Any] = {"losses": np.array(losses), "accuracies": None}
    return Evaluation(split="validation", **values | changes)


@mark.parametrize(
    ("matrix", "expected", "why"),
    [
        (np.ones((4, 4)), "shared bottom", "Every task uses every component"),
        (np.eye(4), "separate networks", "No component is used by two tasks"),
        (BLOCKS, "cannot tell", "On average two tasks share 50 % of what they use"),
        (np.eye(4) * [1, 1, 1, 0], "cannot tell", "0 % of what they use"),  # one has nothing at all
    ],
)
def test_gates_alone_speak_for_a_way_where_they_do_what_it_does(
    matrix: Floats, expected: str, why: str
) -> None:
    found = advise(a_result(matrix))
    assert found.recommendation == expected
    assert found.reasons[0].startswith("No comparison was made; `fit(..., baselines=True)`")
    assert why in found.reasons[0]
    assert "`fit(..., baselines=True)`" in found.next_steps[0]


@mark.parametrize(
    ("rows", "layer_sizes", "chance", "expected"),
    [
        (np.eye(3)[:2], (3,), "67", "cannot tell"),  # 2 / 3
        (np.eye(2), (2,), "50", "cannot tell"),
        (np.eye(3), (3,), "22", "cannot tell"),  # 2 / 3 * 1 / 3
        (np.eye(4), (4,), "9", "separate networks"),  # 4! / 4 ** 4
        (np.tile(np.eye(3), 2), (3, 3), "5", "separate networks"),  # both layers alike
        (np.repeat(np.eye(2), 4, axis=1), (8,), "1", "separate networks"),  # 1 in 8 over 4
    ],
)
def test_few_gates_that_nothing_is_shared_by_are_a_matter_of_chance(
    rows: Floats, layer_sizes: tuple[int, ...], chance: str, expected: str
) -> None:
    names = NAMES[: len(rows)]
    found = advise(
        a_result(
            rows,
            layer_sizes=layer_sizes,
            are_optional=(False,) * len(layer_sizes),
            task_names=names,
            history=[],
            validation=None,
        )
    )
    assert found.recommendation == expected
    assert f"two tasks, as in {chance} % of draws by chance." in found.reasons[0]


def test_thousands_of_tasks_are_advised_at_once() -> None:
    matrix = np.tile(BLOCKS, (1_000, 1))
    names = tuple(map(str, range(4_000)))
    changes = {
        "history": [an_entry(losses=np.full(4_000, 0.2))],
        "validation": an_evaluation([0.2] * 4_000),
        "task_names": names,
        "n_examples": dict.fromkeys(names, 100),
    }
    began = process_time()
    found = advise(a_result(matrix, **changes))
    assert "On average two tasks share 62 % of what they use" in found.reasons[0]
    assert process_time() - began < 10  # a minute, where each pair is looked at by itself


def test_gates_that_have_not_settled_decide_nothing() -> None:
    found = advise(a_result(np.ones((4, 4)), probabilities=np.full((4, 4), 0.6)))
    assert found.recommendation == "cannot tell"
    assert "100 % of the gates have not settled" in found.reasons[0]
    assert any("More `rounds`" in step for step in found.next_steps)


@mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "The gates made 2 groups of 4 tasks; those that use the same: a1 a2; b1 b2."),
        (
            {"validation": an_evaluation([0.2, 0.9, 0.29, 0.4])},
            "2 of 4 tasks overfit; 'a2' most, with a validation loss of 0.9 beside 0.2 in "
            "training.",
        ),
        (
            {"n_examples": {"a1": 40, "a2": 400, "b1": None, "b2": 399}},
            "Task 'a1' has 40 examples, and 'a2' has 400.",
        ),
        (
            {"embeddings": BLOCKS * [[1], [1], [1], [0]]},
            "Tasks that use nothing of some layer: b2.",
        ),
    ],
)
def test_what_the_numbers_show_is_said(changes: dict[str, Any], expected: str) -> None:
    assert expected in advise(a_result(**changes)).reasons


def test_overfitting_is_judged_by_losses_of_one_round() -> None:
    entries = [an_entry(round=r, losses=np.full(4, loss)) for r, loss in ((10, 0.3), (50, 0.1))]
    entries[0].losses[3] = np.nan  # not drawn then
    result = a_result(
        history=entries, best_round=20, validation=an_evaluation([0.31, 0.31, 0.31, 0.12])
    )
    assert result.training_losses().tolist() == [0.3, 0.3, 0.3, 0.1]
    assert not any("overfit" in reason for reason in advise(result).reasons)
    at_the_end = advise(replace(result, best_round=50)).reasons
    assert any(reason.startswith("3 of 4 tasks overfit") for reason in at_the_end)


@mark.parametrize(
    ("best_round", "rounds_planned", "expected"),
    [
        (None, 50, ["More `rounds`, or a", "`evaluate_every=50`, which keeps the best round, or"]),
        (50, 50, ["More `rounds`, or a", "`weight_decay`, against"]),
        (20, 50, ["A larger `alloc", "`patience` ends a training sooner", "`weight_decay`, ag"]),
        (20, 90, ["A larger `alloc", "`weight_decay`, against"]),  # patience has ended it
    ],
)
def test_what_helps_depends_on_when_validation_was_best(
    best_round: int | None, rounds_planned: int, expected: list[str]
) -> None:
    seen = an_evaluation([0.2, 0.9, 0.29, 0.4])
    ended = a_result(validation=seen, best_round=best_round, rounds_planned=rounds_planned)
    steps = advise(replace(ended, probabilities=np.full((4, 4), 0.6))).next_steps[1:]
    assert [s[: len(begin)] for s, begin in zip(steps, expected, strict=True)] == expected


def test_fixed_allocations_and_shares_are_no_evidence() -> None:
    for changes in ({"is_learnt": False}, {"is_binary": False}):
        found = advise(a_result(np.ones((4, 4)), **changes))
        assert found.recommendation == "cannot tell"


def baselines_of(costs: Mapping[str, Sequence[Evaluation]], **changes: Any) -> Baselines:
    outcomes = {
        way: [an_outcome(validation=validation) for validation in own] for way, own in costs.items()
    }
    values: dict[str, Any] = {"models": {}, "by": "", "has_own_splits": True, "shares_rest": False}
    values["task_names"] = ("a1", "a2", "b1", "b2")
    return Baselines(outcomes=outcomes, **values | changes)


def two_measures(loss: float, auc: float, right: float, seed: int) -> Evaluation:
    return an_evaluation(
        [loss + 0.001 * seed] * 4,
        metrics={"auc": np.full(4, auc + 0.001 * seed)},
        accuracies=np.full(4, right + 0.001 * seed),
    )


@mark.parametrize(
    ("by", "expected", "what"),
    [
        ("", "shared bottom", "Mean validation error beside"),
        ("accuracy", "shared bottom", "Mean validation error beside"),
        ("-loss", "learnt gates", "Mean validation loss beside"),
        ("auc", "separate networks", "Mean validation auc beside"),
        ("-auc", "learnt gates", "Mean validation -auc beside"),
    ],
)
def test_ways_are_compared_by_what_the_best_round_is_chosen_by(
    by: str, expected: str, what: str
) -> None:
    ways = {"learnt gates": (0.1, 0.5, 0.7), "shared bottom": (0.4, 0.6, 0.95)}
    ways["separate networks"] = (0.8, 0.9, 0.8)
    seen = {way: [two_measures(*own, seed) for seed in range(3)] for way, own in ways.items()}
    found = advise(a_result(baselines=baselines_of(seen, by=by)))
    assert found.recommendation == expected
    assert found.reasons[0].startswith(what)


@mark.parametrize(("is_binary", "begin"), [(True, "Learnt gates have not"), (False, "Mean")])
def test_gates_of_the_comparison_that_have_not_settled_come_first(
    is_binary: bool, begin: str
) -> None:
    ways = {"learnt gates": 0.3, "shared bottom": 0.2, "separate networks": 0.4}
    beside = baselines_of({way: [an_evaluation([own] * 4)] * 3 for way, own in ways.items()})
    unsettled = [
        replace(outcome, probabilities=np.full((4, 4), 0.6))
        for outcome in beside.outcomes["learnt gates"]
    ]
    beside = replace(beside, outcomes={**beside.outcomes, "learnt gates": unsettled})
    found = advise(a_result(baselines=beside, is_binary=is_binary))
    assert found.recommendation == "shared bottom"
    assert found.line.startswith(f"Advice: shared bottom. {begin}")


def test_a_comparison_with_failed_runs_cannot_tell() -> None:
    ways = ("learnt gates", "shared bottom", "separate networks")
    some = baselines_of({way: [an_evaluation([0.1] * 4)] * 3 for way in ways})
    failed = [replace(outcome, status="failed") for outcome in some.outcomes["shared bottom"]]
    broken = replace(some, outcomes={**some.outcomes, "shared bottom": failed})
    found = advise(a_result(baselines=broken))
    assert found.recommendation == "cannot tell"
    assert found.next_steps[0].startswith("`fit(..., baselines=9)`: more seeds")


def test_exceptions_and_limits_are_said() -> None:
    def seen(*losses: float) -> list[Evaluation]:
        return [an_evaluation([loss + 0.001 * seed for loss in losses]) for seed in range(3)]

    costs = {
        "learnt gates": seen(0.1, 0.1, 0.1, 0.3),
        "shared bottom": seen(0.4, 0.4, 0.4, 0.1),
        "separate networks": seen(0.9, 0.9, 0.9, 0.9),
    }
    beside = baselines_of(costs, has_own_splits=False, shares_rest=True)
    found = advise(a_result(baselines=beside))
    assert found.recommendation == "learnt gates"
    assert found.reasons[1].startswith("Tasks that do better another way: b2 (shared bottom, -6")
    assert any("training examples were held out" in reason for reason in found.reasons)
    assert any("shared in all three" in reason for reason in found.reasons)
    assert any("differs by 0 % (sd) between seeds" in reason for reason in found.reasons)


def test_a_result_ends_with_one_line_of_advice() -> None:
    result = a_result()
    lines = str(result).splitlines()
    assert lines[-1] == advise(result).line
    assert sum("Advice" in line for line in lines) == 1
    assert "Advice" not in str(a_result(is_learnt=False))
    assert "Advice" not in str(a_result(failed_step=3))
