"""What the columns of a table are, also of a later table for a network that has learnt."""

from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose
from pytest import mark, raises, warns

import allotment as al
from allotment.tasks import TablePreprocessing, TableTasks

N = 60
RNG = np.random.default_rng(0)
OLD: dict[str, Any] = {
    "age": np.where(RNG.random(N) < 0.2, -1, RNG.uniform(20, 60, N)),
    "town": RNG.choice(["York", "Bath", "?"], N),
    "home": RNG.choice(["owns", "rents"], N),
    "income": RNG.normal(1_000, 100, N),
}
UNKNOWN = {"age": -1, "town": "?", "home": "!"}
LATER: dict[str, Any] = {
    "age": [70.0, -1.0, None, 30.0],
    "town": ["York", "Oslo", "?", "Bath"],
    "b": [2.5, 7.5, -1.0, 5.0],
}


def earlier() -> TableTasks:
    return al.tasks_from_table(OLD, ["home", "income"], unknown=UNKNOWN)


def later(targets: Any, **options: Any) -> TableTasks:
    """Returns tasks of a later table, all of whose rows are for training."""
    options = {"preprocessing": earlier().preprocessing} | options
    return al.tasks_from_table(
        LATER | targets, list(targets), validation=None, test=None, **options
    )


def test_a_later_table_has_the_inputs_of_the_earlier_one() -> None:
    tasks = later({"c": ["x", "y", "x", "y"]})
    assert torch.equal(tasks[0].train.inputs, earlier().transform(LATER))
    assert tasks.n_features == earlier().n_features
    refitted = later({"c": ["x", "y", "x", "y"]}, preprocessing=None)
    assert refitted[0].train.inputs.shape != tasks[0].train.inputs.shape  # "b" is one, too


def test_the_targets_of_both_tables_are_decoded() -> None:
    tasks = later({"c": ["x", "y", "x", "y"]})
    assert [task.name for task in tasks] == ["c"]
    assert tasks.classes == {"home": ("owns", "rents"), "c": ("x", "y")}
    assert tasks.decode("c", torch.tensor([[0.0, 1.0]])).tolist() == ["y"]
    one = torch.ones(1, 1)
    assert_allclose(tasks.decode("income", one), earlier().decode("income", one))


def test_a_target_that_is_known_keeps_its_classes_and_units() -> None:
    again = later({"home": ["rents"] * 4, "income": [500.0, 600.0, 700.0, 800.0]})
    assert again.preprocessing == earlier().preprocessing
    assert again[0].train.targets.tolist() == [1] * 4
    way = earlier().preprocessing.target("income")
    assert_allclose(again[1].train.targets[0].item(), (500 - way.mean) / way.std, rtol=1e-6)


@mark.parametrize(("unknown", "n_known"), [(None, 3), ("b", 2), ({"c": ["b", "a"]}, 1)])
def test_values_that_are_not_known_are_those_of_the_earlier_table_or_of_targets(
    unknown: Any, n_known: int
) -> None:
    tasks = later({"c": ["a", "b", "c", None]}, unknown=unknown)
    assert len(tasks[0].train) == n_known
    assert torch.equal(tasks[0].train.inputs, earlier().transform(LATER))


@mark.parametrize(
    ("targets", "options", "error", "message"),
    [
        (
            {"home": ["owns", "boat", "owns", "owns"]},
            {},
            ValueError,
            r"classes of `preprocessing`, 'owns', 'rents'\. Found 'boat'; `unknown=\{'home': \[",
        ),
        ({"town": ["York"] * 4}, {}, ValueError, r"no inputs of `preprocessing`\. Found 'town'"),
        (
            {"home": ["owns"] * 4},
            {"kinds": {"home": "regression"}},
            ValueError,
            r"leave out.*Found \['home'\]",
        ),
        ({"c": [1, 2] * 2}, {"categorical": ["age"]}, ValueError, r"left out.*Found \['age'\]"),
        ({"c": [1, 2] * 2}, {"preprocessing": "old"}, TypeError, r"of a table.*Found a str\."),
        (
            {"c": [1, 2] * 2},
            {
                "preprocessing": TablePreprocessing.from_dict(
                    {
                        "inputs": [{"name": "z", "mean": 0.0, "std": 1.0, "has_unknown": False}],
                        "targets": [],
                        "unknown": None,
                    }
                )
            },
            ValueError,
            r"without 'z'\.",
        ),
    ],
)
def test_a_later_table_that_will_not_do(
    targets: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with raises(error, match=message):
        later(targets, **options)


def one_target(values: Any, **options: Any) -> TableTasks:
    return al.tasks_from_table({"p": np.arange(40.0)}, {"v": values}, test=None, **options)


@mark.parametrize("values", [np.arange(40.0) % 2 + 1, [None, *[0.0, 1.0, 2.0] * 13]])
def test_numbers_that_may_be_classes_are_warned_of(values: Any) -> None:
    with warns(UserWarning, match=r"'v' is taken for a regression, since its \d values \(\d\.0, "):
        found = one_target(values)
    assert not found[0].is_classification
    for kind in ("classification", "regression"):
        said = one_target(values, kinds={"v": kind})  # warnings are errors here
        assert said[0].is_classification == (kind == "classification")
        assert (
            one_target(values, preprocessing=said.preprocessing)[0].n_outputs == said[0].n_outputs
        )


@mark.parametrize(
    "values", [np.arange(40.0), np.arange(40.0) % 2 + 0.5, 100 * (np.arange(40.0) % 5)]
)
def test_other_numbers_are_taken_for_numbers_in_silence(values: Any) -> None:
    assert not one_target(values)[0].is_classification


@mark.parametrize("values", [np.ones(40), ["x"] * 40, [2] * 39 + [None]])
def test_a_target_with_one_value_is_warned_of(values: Any) -> None:
    with warns(
        UserWarning, match=r"'v' should have different values in training\. Found .* rows: "
    ):
        one_target(values)
