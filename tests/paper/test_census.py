"""The nine tasks of the census: what is asked, of whom, and what gives it away."""

import os
from pathlib import Path

import numpy as np
import torch
from pytest import MonkeyPatch, approx, fixture, mark, skip
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from allotment.data import DATASETS, Array, load
from allotment.paper import census
from allotment.paper._census import (
    GIVEAWAYS,
    METRICS,
    NOT_ASKED,
    TARGETS,
    accuracy,
    auc,
    inputs_of,
    parts_of,
    r2,
    targets_of,
)
from allotment.tasks import Split, Task
from tests.experiments.toy import make_small_data


@fixture
def small(tmp_path: Path, monkeypatch: MonkeyPatch) -> list[Task]:
    return list(census(make_small_data(tmp_path, monkeypatch, "census")))


def split(task: Task, part: str) -> Split:
    found = task.split(part)
    assert found is not None
    return found


def test_nine_tasks_share_one_table(small: list[Task]) -> None:
    assert [task.name for task in small] == list(METRICS)
    assert len({split(task, "train").inputs.data_ptr() for task in small}) == 1
    assert [task.n_outputs for task in small] == [2, 2, 2, 2, 3, 2, 2, 2, 1]
    assert [list(task.metrics) for task in small] == [[name] for name, _ in METRICS.values()]


def test_rows_that_were_not_asked_are_left_out(small: list[Task]) -> None:
    n_rows = {task.name: sum(len(split(task, p)) for p in PARTS) for task in small}
    assert n_rows["income"] == n_rows["dividends"] == 120
    assert all(n_rows[name] == 90 for name in NOT_ASKED)  # three of four rows


PARTS = ("train", "validation", "test")


def test_parts_have_no_row_in_common(small: list[Task]) -> None:
    rows = torch.cat([split(small[0], part).rows for part in PARTS])  # type: ignore[misc]
    assert rows.sort().values.tolist() == list(range(120))


def test_no_input_is_a_target_or_gives_one_away(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    arrays = load("census", make_small_data(tmp_path, monkeypatch, "census"))
    names = set(inputs_of(arrays))
    assert not names & {*TARGETS, *GIVEAWAYS}
    assert len(names) == 42 - len(TARGETS) - len(GIVEAWAYS) == 20


def test_rows_with_equal_inputs_stay_together() -> None:
    n = 3_000
    values = np.random.default_rng(0).integers(40, size=n)
    part = parts_of({"a": values, "b": values % 3})
    for value in range(40):
        assert len(set(part[values == value])) == 1
    alone = parts_of({"a": np.arange(n)})
    for name, share in (("train", 0.6), ("validation", 0.2), ("test", 0.2)):
        standard_error = (share * (1 - share) / n) ** 0.5
        assert (alone == name).mean() == approx(share, abs=4 * standard_error)
    # The order of other rows does not move a row that stands alone.
    assert (parts_of({"a": np.arange(n)[::-1]}) == alone).all()


def test_metrics_are_those_of_scikit_learn() -> None:
    outputs = torch.randint(9, (50, 2)).float()  # with ties
    labels = torch.randint(2, (50,))
    assert auc(outputs, labels) == approx(roc_auc_score(labels, outputs[:, 1] - outputs[:, 0]))
    assert auc(torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 2.0]]), torch.tensor([0, 1, 0])) == 0.75
    assert np.isnan(auc(outputs, torch.ones(50)))
    assert accuracy(outputs, labels) == approx(accuracy_score(labels, outputs.argmax(1)))
    y = torch.randn(50)
    assert r2(outputs[:, :1], y) == approx(r2_score(y, outputs[:, 0]))


# What a small tree on a single column of the inputs reaches on the test rows, with the best column:
# AUC, accuracy or R2, as the task is measured.
BEST = {
    "income": 0.804,  # industry
    "never married": 0.945,  # age
    "some college": 0.786,  # age
    "union member": 0.741,  # industry
    "full or part time": 0.885,  # class of worker, which tells who is in the labour force
    "occupation": 0.400,  # industry
    "same house": 0.648,  # age
    "dividends": 0.744,  # age
    "weeks worked": 0.244,  # industry
}


@fixture(scope="module")
def arrays() -> dict[str, Array]:
    folder = os.environ.get("ALLOTMENT_DATA", "")
    file_name = DATASETS["census"].file_name
    if not folder or not (Path(folder) / file_name).is_file():
        skip(f"$ALLOTMENT_DATA should name a folder with the real {file_name}")
    return load("census")


def test_the_published_table_gives_the_declared_tasks(arrays: dict[str, Array]) -> None:
    tasks = census()
    asked = {"union member": 9_479, "occupation": 49_479, "same house": 49_093}
    asked |= {"weeks worked": 51_873, "full or part time": 38_072}
    n_rows = {task.name: sum(len(split(task, part)) for part in PARTS) for task in tasks}
    assert n_rows == {name: asked.get(name, 99_762) for name in METRICS}
    assert [task.n_outputs for task in tasks] == [2, 2, 2, 2, 7, 14, 2, 2, 1]
    assert split(tasks[0], "train").inputs.shape == (99_762, 259)
    ones = {task.name: int((split(task, "train").targets == 1).sum()) for task in tasks}
    assert ones["income"] == 6_186
    assert ones["never married"] == 43_143
    assert ones["dividends"] == 10_528


@mark.parametrize("task", METRICS)
def test_no_single_column_gives_a_target_away(task: str, arrays: dict[str, Array]) -> None:
    found = one_column(arrays, task)
    best = max(found, key=lambda name: found[name])
    assert found[best] == approx(BEST[task], abs=0.005), best


def one_column(arrays: dict[str, Array], task: str) -> dict[str, float]:
    """Returns what a tree of at most 16 leaves on each column alone reaches on the test rows."""
    inputs, y = inputs_of(arrays), targets_of(arrays)[task]
    part = parts_of(inputs)
    is_known = y != NOT_ASKED[task] if task in NOT_ASKED else np.ones(len(y), dtype=bool)
    train, test = (is_known & (part == name) for name in ("train", "test"))
    kind = METRICS[task][0]
    found = {}
    for name, column in inputs.items():
        # Categories in the order of their frequency, so that a tree can tell them apart.
        _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
        order = np.argsort(np.argsort(-counts))
        x = (column if column.dtype.kind in "iu" else order[places])[:, None]
        if kind == "R2":
            tree = DecisionTreeRegressor(max_leaf_nodes=16).fit(x[train], y[train])
            found[name] = r2_score(y[test], tree.predict(x[test]))
            continue
        tree = DecisionTreeClassifier(max_leaf_nodes=16).fit(x[train], y[train])
        if kind == "AUC":
            found[name] = roc_auc_score(y[test], tree.predict_proba(x[test])[:, 1])
        else:
            found[name] = accuracy_score(y[test], tree.predict(x[test]))
    return found
