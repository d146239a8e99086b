"""Tables with columns, names and values that are easily taken for something else."""

import json
from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import pytest

pytest.importorskip("pandas", reason="pandas is not installed here")
import numpy as np
import pandas as pd
import torch
from pytest import mark, raises
from torch.testing import assert_close

from allotment.tasks import TablePreprocessing, TableTasks, tasks_from_table

N = 20
AGE = np.arange(N) * 1.0
LABELS = {"y": [0, 1] * 10}


def made(inputs: Any, targets: Any = LABELS, **options: Any) -> TableTasks:
    return tasks_from_table(inputs, targets, **({"validation": None, "test": None} | options))


def features(inputs: Any, **options: Any) -> list[str]:
    return made(inputs, **options).preprocessing.feature_names


def test_declared_categories_are_categories_be_they_numbers() -> None:
    frame = pd.DataFrame({"a": pd.Categorical([1, 2] * 10)})
    assert features(frame) == ["a=1", "a=2"]
    tasks = made({"age": AGE}, pd.DataFrame({"y": pd.Categorical([1.5, 2.5] * 10)}))
    assert tasks.classes == {"y": (1.5, 2.5)}


@mark.parametrize(
    ("values", "found"),
    [
        (pd.Categorical(["u", "v"] * 10), ["a=u", "a=v"]),
        (pd.Index(AGE), ["a"]),
        (pd.array([1, None] * 10, dtype="Int64"), ["a", "a unknown"]),
        (torch.arange(N).bfloat16(), ["a"]),
    ],
)
def test_columns_may_be_arrays_of_other_kinds(values: Any, found: list[str]) -> None:
    assert features({"a": values}) == found


@mark.parametrize("unknown", [-1, np.int64(-1), np.array([-1]), [np.int64(-1)], {"a": {-1}}])
def test_numbers_of_numpy_mean_not_known_too(unknown: Any) -> None:
    preprocessing = made({"a": np.array([-1, 2] * 10)}, unknown=unknown).preprocessing
    assert preprocessing.feature_names == ["a", "a unknown"]
    again = TablePreprocessing.from_dict(json.loads(json.dumps(preprocessing.to_dict())))
    rows = {"a": [-1, 2, 5]}
    assert_close(again.transform(rows), preprocessing.transform(rows), rtol=0, atol=0)


def test_a_text_among_numbers_may_mean_not_known() -> None:
    assert features({"a": [1, "?"] * 10}, unknown="?") == ["a", "a unknown"]


@mark.parametrize(
    ("inputs", "options", "words"),
    [
        ({1: AGE, "1": AGE}, {}, "should have different names"),
        ({"a": AGE}, {"unknown": {"b": -1}}, "`unknown` should be one of 'a', 'y'"),
        ({"a": [[1, 2]] * N}, {}, "should hold numbers, truth values or texts. Found list"),
        ({"a": AGE}, {"groups": [1, 2, 3]}, "`groups` should have a known value for each of 20"),
        ({"a": AGE}, {"groups": [1.0, np.nan] * 10}, "Found 10 of 20"),
        ({"a": AGE}, {"groups": [1] * 10 + [2] * 10, "test": 0.2}, "`test` should be a share"),
        ({"a": ["u", "v"] * 10}, {"max_categories": 0}, "`max_categories` should be at least 1"),
    ],
)
def test_what_would_go_wrong_in_silence_is_refused(
    inputs: Any, options: dict[str, Any], words: str
) -> None:
    with raises(ValueError, match=words):
        made(inputs, **options)


@mark.parametrize(
    ("later", "expectation"),
    [
        (["1", "3"], does_not_raise()),
        ([None, None], does_not_raise()),
        ([1, 2], raises(ValueError, match=r"should hold texts, as in training\. Found 1")),
    ],
)
def test_categories_stay_texts(later: Any, expectation: AbstractContextManager[object]) -> None:
    tasks = made({"a": ["1", "2"] * 10})
    with expectation:
        tasks.transform({"a": later})
