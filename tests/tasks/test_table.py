"""Tasks from a table: the same from every kind of table, and each task on its known rows alone."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import pytest

pytest.importorskip("pandas", reason="pandas is not installed here")
pytest.importorskip("polars", reason="polars is not installed here")
import numpy as np
import pandas as pd
import polars as pl
import torch
from numpy.testing import assert_allclose
from pytest import approx, mark, param, raises
from torch import nn
from torch.testing import assert_close

import allotment as al
from allotment.tasks import TablePreprocessing, TableTasks

N = 200
GENERATOR = np.random.default_rng(0)
AGE = np.where(GENERATOR.random(N) < 0.2, np.nan, GENERATOR.normal(40, 10, N))
ROOMS = GENERATOR.integers(1, 6, N)
OWNS = GENERATOR.random(N) < 0.5
TOWN = GENERATOR.choice(["York", "Bath", "Hull"], N).tolist()
TOWN[3] = None
JOB = [None if u < 0.3 else "yes" if u < 0.6 else "no" for u in GENERATOR.random(N)]
RENT = np.where(GENERATOR.random(N) < 0.3, np.nan, 500 + 100 * ROOMS)
FLOOR = GENERATOR.integers(0, 4, N)
COLUMNS: dict[str, Any] = {"age": AGE, "rooms": ROOMS, "owns": OWNS, "town": TOWN}
TARGETS: dict[str, Any] = {"job": JOB, "rent": RENT, "floor": FLOOR}


def objects(columns: dict[str, Any]) -> Any:
    """Returns a structured array."""
    rows = list(zip(*(list(values) for values in columns.values()), strict=True))
    return np.array(rows, dtype=[(name, object) for name in columns])


def categorical(columns: dict[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(columns)
    texts = [name for name in frame if name in ("town", "job")]
    return frame.astype(dict.fromkeys(texts, "category"))


def nullable(columns: dict[str, Any]) -> pd.DataFrame:
    types = {"age": "Float64", "rooms": "Int64", "owns": "boolean", "town": "string"}
    types |= {"job": "string", "rent": "Float64", "floor": "Int64"}
    return pd.DataFrame(columns).astype({name: types[name] for name in columns})


def enumerated(columns: dict[str, Any]) -> pl.DataFrame:
    frame = pl.DataFrame(columns)
    texts = [pl.col(name).cast(pl.Categorical) for name in frame.columns if name in ("town", "job")]
    return frame.with_columns(texts)


TABLES: list[Callable[[dict[str, Any]], Any]] = [
    *(pd.DataFrame, categorical, nullable, pl.DataFrame, enumerated, objects),
    lambda columns: {name: list(values) for name, values in columns.items()},
]


@mark.parametrize(
    "series",
    [
        pd.Series([1, None, 0], dtype="Int64"),
        pl.Series([1, None, 0]),
        pl.Series([1, None, 0], dtype=pl.UInt8),
        [1, None, 0],
        np.array([1, None, 0], dtype=object),
    ],
)
def test_whole_numbers_stay_whole_where_some_are_missing(series: Any) -> None:
    tasks = al.tasks_from_table({"a": [1.0, 2.0, 3.0]}, {"y": series}, validation=None, test=None)
    assert tasks.classes == {"y": (0, 1)}
    assert tasks[0].train.rows.tolist() == [0, 2]


@mark.parametrize("table", TABLES)
def test_every_kind_of_table_gives_the_same_tasks(table: Callable[[dict[str, Any]], Any]) -> None:
    expected = al.tasks_from_table(COLUMNS, TARGETS)
    found = al.tasks_from_table(table(COLUMNS), table(TARGETS))
    assert found.preprocessing == expected.preprocessing
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a.train.inputs, b.train.inputs)
        for part in ("train", "validation", "test"):
            own, other = getattr(a, part), getattr(b, part)
            assert torch.equal(own.targets, other.targets)
            assert torch.equal(own.rows, other.rows)


def test_targets_may_be_named_columns_of_the_inputs() -> None:
    both = al.tasks_from_table(pd.DataFrame(COLUMNS | TARGETS), ["job", "rent", "floor"])
    assert both.preprocessing == al.tasks_from_table(COLUMNS, TARGETS).preprocessing
    one = al.tasks_from_table(COLUMNS | TARGETS, "rent")
    assert [task.name for task in one] == ["rent"]
    assert "floor" in one.preprocessing.feature_names


@mark.parametrize("kind", [np.asarray, torch.tensor])
def test_columns_of_an_array_have_numbers(kind: Callable[[Any], Any]) -> None:
    x = GENERATOR.normal(size=(20, 3))
    tasks = al.tasks_from_table(kind(x), kind(GENERATOR.normal(size=(20, 2))))
    assert tasks.preprocessing.feature_names == ["x0", "x1", "x2"]
    assert [task.name for task in tasks] == ["y0", "y1"]
    assert [task.name for task in al.tasks_from_table(x, pd.Series(range(20), name="a") % 2)] == [
        "a"
    ]


def test_what_a_target_is_follows_from_its_values() -> None:
    tasks = al.tasks_from_table(COLUMNS, TARGETS)
    assert tasks.classes == {"job": ("no", "yes"), "floor": (0, 1, 2, 3)}
    assert [task.is_classification for task in tasks] == [True, False, True]
    assert [task.n_outputs for task in tasks] == [2, 1, 4]


def test_what_a_target_is_may_be_said() -> None:
    tasks = al.tasks_from_table(
        COLUMNS, TARGETS, kinds={"rent": "classification", "floor": "regression"}
    )
    assert [task.is_classification for task in tasks] == [True, True, False]
    assert tasks.classes["rent"] == (600.0, 700.0, 800.0, 900.0, 1000.0)


def test_all_splits_of_all_tasks_refer_to_one_tensor() -> None:
    tasks = al.tasks_from_table(COLUMNS, TARGETS)
    splits = [task.split(part) for task in tasks for part in ("train", "validation", "test")]
    assert len({id(split.inputs) for split in splits if split is not None}) == 1


def test_a_task_has_the_rows_in_which_its_target_is_known() -> None:
    for task in al.tasks_from_table(COLUMNS, TARGETS):
        rows = torch.cat([task.train.rows, task.validation.rows, task.test.rows])
        known = [value is not None and value == value for value in TARGETS[task.name]]
        assert sorted(rows.tolist()) == np.flatnonzero(known).tolist()


def test_a_row_has_one_part_in_all_tasks_and_shares_are_kept() -> None:
    tasks = al.tasks_from_table(COLUMNS, TARGETS, validation=0.1, test=0.25)
    parts: dict[str, set[int]] = {
        part: {row for task in tasks for row in getattr(task, part).rows.tolist()}
        for part in ("train", "validation", "test")
    }
    assert [len(rows) for rows in parts.values()] == [130, 20, 50]
    assert not parts["train"] & parts["test"] and not parts["train"] & parts["validation"]
    again = al.tasks_from_table(COLUMNS, {"rent": RENT}, validation=0.1, test=0.25)
    assert torch.equal(again[0].test.rows, tasks[1].test.rows)
    other = al.tasks_from_table(COLUMNS, {"rent": RENT}, validation=0.1, test=0.25, seed=1)
    assert not torch.equal(other[0].test.rows, tasks[1].test.rows)


@mark.parametrize("kind", [list, np.asarray, torch.tensor])
def test_parts_may_be_given(kind: Callable[[Any], Any]) -> None:
    mask = np.arange(N) < 40
    tasks = al.tasks_from_table(
        COLUMNS, {"floor": FLOOR}, validation=kind(mask), test=kind([50, 60])
    )
    assert tasks[0].validation.rows.tolist() == list(range(40))
    assert tasks[0].test.rows.tolist() == [50, 60]
    assert len(tasks[0].train) == N - 42
    mixed = al.tasks_from_table(COLUMNS, {"floor": FLOOR}, validation=0.5, test=kind(mask))
    assert len(mixed[0].validation) == N // 2 and len(mixed[0].train) == N - 40 - N // 2


def test_rows_of_one_group_stay_together() -> None:
    person = np.arange(N) // 7
    tasks = al.tasks_from_table(COLUMNS | {"person": person}, {"floor": FLOOR}, groups="person")
    assert "person" not in tasks.preprocessing.feature_names
    task = tasks[0]
    members = [set(person[getattr(task, part).rows]) for part in ("train", "validation", "test")]
    assert sum(map(len, members)) == len(set(person))
    assert len(task.test) == approx(0.2 * N, abs=7)
    given = al.tasks_from_table(COLUMNS, {"floor": FLOOR}, groups=person.tolist())
    assert torch.equal(given[0].test.rows, task.test.rows)


def test_parts_that_are_not_asked_for_are_not_there() -> None:
    task = al.tasks_from_table(COLUMNS, {"floor": FLOOR}, validation=None, test=0)[0]
    assert task.validation is None and task.test is None and len(task.train) == N


def test_a_held_out_part_without_a_known_value_is_left_out_for_that_task_alone() -> None:
    late = np.where(np.arange(N) < 50, np.nan, AGE)
    tasks = al.tasks_from_table(COLUMNS, {"late": late, "floor": FLOOR}, test=np.arange(50))
    assert tasks[0].test is None and len(tasks[1].test) == 50


@mark.parametrize("n_runs", [1, 2])
def test_training_equals_that_of_each_task_on_its_known_rows(n_runs: int) -> None:
    table = al.tasks_from_table(COLUMNS, TARGETS)
    apart = []
    for task in table:
        train, validation, test = task.train, task.validation, task.test
        own = [split.examples() for split in (train, validation, test)]
        apart.append(al.Task(task.name, own[0], own[1], own[2], n_outputs=task.n_outputs))

    def outcomes(tasks: Any) -> list[al.Outcome]:
        runs = []
        for seed in range(n_runs):
            torch.manual_seed(seed)
            layer = al.ModularLayer(
                [nn.Linear(table.n_features, 4) for _ in range(3)], al.GumbelMatrix(3, 3)
            )
            heads = {task.name: nn.Linear(4, task.n_outputs) for task in tasks}
            network = al.MultiTaskNetwork(None, [layer], heads)
            runs.append(al.Run(network, tasks, seed, al.TrainingSettings(rounds=20)))
        *_, last = al.train(runs)
        assert last.outcomes is not None
        return last.outcomes

    for a, b in zip(outcomes(table), outcomes(apart), strict=True):
        assert all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
        assert a.test is not None and b.test is not None
        assert_allclose(a.test.losses, b.test.losses, rtol=0)


def test_inputs_are_standardised_and_what_is_not_known_is_the_mean() -> None:
    tasks = al.tasks_from_table(COLUMNS, {"floor": FLOOR})
    assert tasks.preprocessing.feature_names == [
        *("age", "age unknown", "rooms", "owns", "town=Bath", "town=Hull", "town=York"),
        *(["town unknown"] if tasks.n_features == 8 else []),
    ]
    x, rows = tasks[0].train.inputs, tasks[0].train.rows
    age = torch.tensor(AGE)
    assert_close(x[:, 1], age.isnan().float())
    assert (x[age.isnan(), 0] == 0).all()
    known = x[rows][~age[rows].isnan(), 0]
    assert_close(known.mean().item(), 0.0, rtol=0, atol=1e-6)
    assert_close(known.std(correction=0).item(), 1.0)
    assert_close(x[:, 4:7].sum(dim=1), torch.tensor([float(town is not None) for town in TOWN]))


def test_preprocessing_is_fitted_on_the_rows_of_training_alone() -> None:
    held = np.arange(N) >= 150
    changed = {
        "age": np.where(held, 1e6, AGE),
        "rooms": np.where(held, -50, ROOMS),
        "owns": np.where(held, True, OWNS),
        "town": [None if is_held else town for is_held, town in zip(held, TOWN, strict=True)],
    }
    rent = np.where(held, 1e9, RENT)
    a = al.tasks_from_table(COLUMNS, {"rent": RENT}, test=held)
    b = al.tasks_from_table(changed, {"rent": rent}, test=held)
    assert a.preprocessing == b.preprocessing
    assert torch.equal(a[0].train.examples()[0], b[0].train.examples()[0])


def test_a_constant_column_is_zero() -> None:
    x = al.tasks_from_table(
        {"a": [7.0] * 9, "b": range(9)}, {"y": range(9)}, kinds={"y": "regression"}
    )[0].train.inputs
    assert (x[:, 0] == 0).all()


def test_categories_that_training_has_not_seen_are_not_known() -> None:
    tasks = al.tasks_from_table(COLUMNS, {"floor": FLOOR}, validation=None, test=None)
    rows = {"age": [40.0], "rooms": [2], "owns": [True], "town": ["Oslo"]}
    assert tasks.transform(rows)[0, 4:].tolist() == [0, 0, 0, 1]
    assert_close(tasks.transform(rows), tasks.transform(rows | {"town": [None]}))


def test_rare_categories_are_joined() -> None:
    letters = list("aaabbbccde")
    table = al.tasks_from_table(
        {"letter": letters}, {"y": np.arange(10.0)}, validation=None, test=None, max_categories=3
    )
    names = ["letter=a", "letter=b", "letter=c", "letter unknown"]
    assert table.preprocessing.feature_names == names
    assert table.transform({"letter": ["d", "a"]}).tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]


def test_numbers_may_be_categories() -> None:
    tasks = al.tasks_from_table(COLUMNS, {"floor": FLOOR}, categorical=["rooms"])
    assert [name for name in tasks.preprocessing.feature_names if "rooms" in name] == [
        f"rooms={n}" for n in range(1, 6)
    ]


@mark.parametrize(
    ("unknown", "job", "n_known"),
    [
        ("?", ["yes", "?", "no", None] * 5, 10),
        (-1, [0, -1, 1, 1] * 5, 15),
        ([-1, "?"], [0, -1, 1, "?"] * 5, 10),
        ({"job": -1}, [0, -1, 1, 1] * 5, 15),
        ({"a": -1}, [0, -1, 1, 1] * 5, 20),
        (None, [0, -100, 1, pd.NA] * 5, 10),
        (None, [0.5, float("nan"), 1.0, None] * 5, 10),
    ],
)
def test_values_that_mean_not_known(unknown: Any, job: list[Any], n_known: int) -> None:
    columns = {"a": [1.0, -1.0] * 10}
    tasks = al.tasks_from_table(columns, {"job": job}, unknown=unknown, validation=None, test=None)
    assert len(tasks[0].train) == n_known


def test_predictions_come_back_as_classes_and_in_original_units() -> None:
    tasks = al.tasks_from_table(COLUMNS, TARGETS)
    assert tasks.decode("job", torch.tensor([[0.0, 1.0], [2.0, 1.0]])).tolist() == ["yes", "no"]
    rent = tasks[1].train
    known = RENT[rent.rows]
    assert_allclose(tasks.decode("rent", rent.targets[rent.rows].unsqueeze(1)), known, rtol=1e-5)
    assert_close(rent.targets[rent.rows].mean().item(), 0.0, rtol=0, atol=1e-6)
    plain = al.tasks_from_table(COLUMNS, TARGETS, standardize_targets=False)[1].train
    assert_allclose(plain.targets[plain.rows], known)


def test_preprocessing_is_saved_and_loaded() -> None:
    table = pl.DataFrame(COLUMNS)
    tasks = al.tasks_from_table(table, TARGETS, unknown={"town": {"Hull"}})
    again = TablePreprocessing.from_dict(json.loads(json.dumps(tasks.preprocessing.to_dict())))
    assert torch.equal(again.transform(table), tasks.transform(table))
    outputs = torch.randn(5, 4)
    assert again.decode("floor", outputs).tolist() == tasks.decode("floor", outputs).tolist()
    assert again.feature_names == tasks.preprocessing.feature_names
    assert again.targets == tasks.preprocessing.targets


def test_tasks_are_a_sequence() -> None:
    tasks = al.tasks_from_table(COLUMNS, TARGETS)
    assert isinstance(tasks, TableTasks)
    assert len(tasks) == 3 and list(tasks) == [*tasks.tasks] and tasks[1:] == tasks.tasks[1:]


def refused(message: str) -> AbstractContextManager[object]:
    return raises(ValueError, match=message)


@mark.parametrize(
    ("arguments", "expectation"),
    [
        param({}, does_not_raise(), id="good"),
        param(
            {"targets": ["rent", "jobb"]},
            refused(r"A target should be a column .* Found 'jobb'\. Did you mean 'job'\?"),
            id="no such target",
        ),
        param(
            {"targets": []}, refused(r"`targets` should be names .* Found none\."), id="no target"
        ),
        param(
            {"targets": {"a": [None] * N}},
            refused(r"Target 'a' should have a known value in training\. Found none in \d+ rows"),
            id="nothing known",
        ),
        param(
            {"targets": {"a": [0] * 150 + [1] * 50}, "test": np.arange(150, 200)},
            refused(r"Target 'a' should have all .* Found 1 in test alone\. Another `seed`.*"),
            id="a class in test alone",
        ),
        param({"targets": np.zeros(9)}, refused(r"equal lengths\. Found 200 rows and 9"), id="n"),
        param({"targets": ["town", *COLUMNS, *TARGETS]}, refused(r"Found none"), id="no input"),
        param({"validation": 1.0}, refused(r"`validation` should be in \[0, 1\)"), id="share"),
        param({"validation": 0.6, "test": 0.39}, does_not_raise(), id="few rows are left"),
        param(
            {"validation": 0.6, "test": 0.4},
            refused(r"leave rows for training\. Found `test = 0\.4`, `validation = 0\.6` for 200"),
            id="no row is left",
        ),
        param({"validation": 0.7, "test": 0.5}, refused(r"leave rows for training"), id="too many"),
        param(
            {"validation": 0.95, "test": np.arange(N // 10)},
            refused(rf"Found `validation = 0\.95` for {N - N // 10} rows"),
            id="rows and a share",
        ),
        param({"validation": [0, 1], "test": [1]}, refused(r"Found row 1 in both"), id="overlap"),
        param({"test": [200]}, refused(r"row numbers from 0 to 199.* 200 to 200"), id="range"),
        param({"test": np.arange(N)}, refused(r"leave rows for training"), id="no training"),
        param({"categorical": ["twon"]}, refused(r"Did you mean 'town'\?"), id="categorical"),
        param({"kinds": {"rent": "class"}}, refused(r"`kinds` should be one of"), id="kind"),
        param({"kinds": {"rnt": "regression"}}, refused(r"mean 'rent'\?"), id="kind of what"),
        param({"groups": "twon"}, refused(r"`groups` should be a column"), id="groups"),
        param(
            {"inputs": 3}, refused(r"A table should be a frame .* Found an int\."), id="no table"
        ),
        param({"inputs": {"a": [1], "b": [1, 2]}}, refused(r"one length\. Found \{'a': 1"), id="l"),
        param({"inputs": {}}, refused(r"at least one row and one column"), id="empty"),
        param({"inputs": {"a": [np.inf] * N}}, refused(r"'a' should be finite"), id="infinite"),
        param({"inputs": {"a": [None] * N}}, refused(r"Input 'a' should have a known"), id="none"),
        param(
            {"inputs": pd.DataFrame({"a": pd.date_range("2020", periods=N)})},
            refused(r"Column 'a' should hold a number, .* type datetime64"),
            id="dates",
        ),
        param(
            {"inputs": {"a": [(1, 2)] * N}}, refused(r"'a' should hold .* Found tuple"), id="tuples"
        ),
    ],
)
def test_a_table_that_will_not_do(
    arguments: dict[str, Any], expectation: AbstractContextManager[object]
) -> None:
    everything = {"inputs": COLUMNS | TARGETS, "targets": ["rent"], **arguments}
    if "targets" in arguments and not isinstance(arguments["targets"], list):
        everything["inputs"] = COLUMNS
    elif "inputs" in arguments:
        everything["targets"] = {"rent": RENT}
    with expectation:
        al.tasks_from_table(**everything)


@mark.parametrize(
    ("rows", "message"),
    [
        ({"age": [1.0], "owns": [True], "town": ["Bath"]}, r"without 'rooms'\."),
        ({**{name: values[:1] for name, values in COLUMNS.items()}, "age": ["old"]}, r"'old'"),
    ],
)
def test_a_table_to_predict_is_like_that_of_training(rows: dict[str, Any], message: str) -> None:
    tasks = al.tasks_from_table(COLUMNS, {"floor": FLOOR})
    with refused(message):
        tasks.transform(rows)


def a_small_table() -> TableTasks:
    table = {"p": [1.0, 2.0, 3.0], "q": ["a", "b", "a"]}
    targets = {"kind": ["x", "y", "z"], "size": [0.5, 1.0, 1.5]}
    return al.tasks_from_table(table, targets, validation=None, test=None)


def test_a_column_that_new_rows_lack_is_named() -> None:
    found = r"A table should have all columns of training\. Found \['p'\], without 'q'\."
    with raises(ValueError, match=found):
        a_small_table().transform({"p": [1.0]})
    assert a_small_table().transform({"q": ["a"], "p": [1.0], "more": [0]}).shape == (1, 3)


@mark.parametrize(
    ("task", "shape", "expectation"),
    [
        ("kind", (4, 3), does_not_raise()),
        ("kind", (4,), raises(ValueError, match=r"'kind' should be of shape \[N, 3\]\. Found sh")),
        ("kind", (4, 2), raises(ValueError, match=r"\[N, 3\]\. Found shape \[4, 2\]\.")),
        ("kind", (4, 3, 1), raises(ValueError, match=r"\[N, 3\]\. Found shape \[4, 3, 1\]\.")),
        ("size", (4, 1), does_not_raise()),
        ("size", (4,), does_not_raise()),
        ("size", (4, 2), raises(ValueError, match=r"'size' should be of shape \[N, 1\]\. Found s")),
    ],
)
def test_outputs_of_another_shape_are_not_decoded(
    task: str, shape: tuple[int, ...], expectation: Any
) -> None:
    with expectation:
        assert a_small_table().decode(task, torch.zeros(shape)).shape == (4,)


def test_many_whole_numbers_may_be_meant_as_a_regression() -> None:
    table = {"p": np.arange(50.0), "v": np.arange(50)}
    with raises(ValueError, match=r"alone\..* `kinds=\{'v': 'regression'\}` predicts a number\.$"):
        al.tasks_from_table(table, ["v"])
    assert al.tasks_from_table(table, ["v"], kinds={"v": "regression"})[0].n_outputs == 1
    texts = {"p": np.arange(50.0), "v": np.arange(50).astype(str)}
    with raises(ValueError, match=r"leaves the class out\.$"):
        al.tasks_from_table(texts, ["v"])
