"""Nine questions about the people of one census table, each with a measure of its own."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats
from torch import Tensor

from ..data import Array, load
from ..experiments import DataOptions, Experiment, ReportOptions
from ..settings import Optimization, TrainingSettings
from ..tasks import TableTasks, tasks_from_table
from ._methods import METHODS
from .networks import census_network

# What gives a target away, or nearly so, is no input of any task.
GIVEAWAYS = (
    *("household_detail", "household_summary", "tax_filer", "family_members_under_18"),  # married
    "occupation_code",  # occupation
    *("migration_msa", "migration_reg", "migration_sunbelt", "move_within_reg"),  # same house
    *("region_prev", "state_prev"),  # same house
    "num_persons_worked_for",  # weeks worked: 0 in both
    "weight",  # of the sample, and no fact about a person
)
# Numbers that are codes, so that they become one-hot.
CODES = ("industry_code", "own_business", "veterans_benefits", "year")
COLLEGE = (
    "Some college but no degree",
    "Associates degree-occup /vocational",
    "Associates degree-academic program",
    "Bachelors degree(BA AB BS)",
    "Masters degree(MA MS MEng MEd MSW MBA)",
    "Prof school degree (MD DDS DVM LLB JD)",
    "Doctorate degree(PhD EdD)",
)
NOT_ASKED = {
    "union member": "Not in universe",
    "full or part time": "Children or Armed Forces",
    "occupation": "Not in universe",
    "same house": "Not in universe under 1 year old",
    "weeks worked": 0,
}
TARGETS = (
    *("income", "marital_status", "education", "union_member", "full_or_part_time"),
    *("major_occupation", "same_house_1yr", "dividends", "weeks_worked"),
)
SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def auc(outputs: Tensor, targets: Tensor) -> float:
    """Returns the area under the ROC curve of two classes, from outputs ``[N, 2]``; ties half.

    NaN where one class is missing.
    """
    ranks = stats.rankdata((outputs[:, 1] - outputs[:, 0]).double().numpy())
    is_positive = targets.numpy() == 1
    n, n_positive = len(ranks), int(is_positive.sum())
    if n_positive in (0, n):
        return float("nan")
    above = ranks[is_positive].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * (n - n_positive)))


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    """Returns the share of right answers, from outputs ``[N, K]``."""
    return float((outputs.argmax(dim=1) == targets).double().mean())


def r2(outputs: Tensor, targets: Tensor) -> float:
    """Returns the share of the variance that is explained; NaN where there is none."""
    y = targets.double()
    left = (outputs.double().reshape(y.shape) - y).square().mean()
    return float(1 - left / y.var(correction=0))


Metric = Callable[[Tensor, Tensor], float]
METRICS: Mapping[str, tuple[str, Metric]] = {
    "income": ("AUC", auc),
    "never married": ("AUC", auc),
    "some college": ("AUC", auc),
    "union member": ("AUC", auc),
    "full or part time": ("accuracy", accuracy),
    "occupation": ("accuracy", accuracy),
    "same house": ("AUC", auc),
    "dividends": ("AUC", auc),
    "weeks worked": ("R2", r2),
}


def census(folder: str | Path | None = None) -> TableTasks:
    """Returns the nine tasks; they share one table of inputs, and lack rows that were not asked.

    60 % of the rows are for training, 20 % for validation and 20 % for the test, by a hash of the
    row's number. Rows with equal inputs go where the first of them goes.
    """
    arrays = load("census", folder)
    inputs = inputs_of(arrays)
    part = parts_of(inputs)
    tasks = tasks_from_table(
        inputs,
        targets_of(arrays),
        validation=part == "validation",
        test=part == "test",
        unknown=NOT_ASKED,
        categorical=CODES,
    )
    measured = [replace(task, metrics=dict([METRICS[task.name]])) for task in tasks]
    return replace(tasks, tasks=tuple(measured))


def inputs_of(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the columns that are no target and give none away: numbers, or texts."""
    left_out = {*TARGETS, *GIVEAWAYS}
    names = [name for name in arrays if not name.endswith("_texts") and name not in left_out]
    return {name: _values(arrays, name) for name in names}


def targets_of(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the nine targets; who was not asked has the value in `NOT_ASKED`."""
    return {
        "income": _values(arrays, "income") == "50000+.",
        "never married": _values(arrays, "marital_status") == "Never married",
        "some college": np.isin(_values(arrays, "education"), COLLEGE),
        "union member": _values(arrays, "union_member"),
        "full or part time": _values(arrays, "full_or_part_time"),
        "occupation": _values(arrays, "major_occupation"),
        "same house": _values(arrays, "same_house_1yr"),
        "dividends": arrays["dividends"] > 0,
        "weeks worked": arrays["weeks_worked"].astype(np.float64),
    }


def _values(arrays: Mapping[str, Array], name: str) -> Array:
    """Returns a column's numbers, or its texts in place of their places."""
    if f"{name}_texts" not in arrays:
        return arrays[name]
    texts: Array = arrays[f"{name}_texts"][arrays[name]]
    return texts


def parts_of(inputs: Mapping[str, Array]) -> Array:
    """Returns "train", "validation" or "test" for each row."""
    places = [np.unique(column, return_inverse=True)[1] for column in inputs.values()]
    _, first, group = np.unique(
        np.stack(places, axis=1), axis=0, return_index=True, return_inverse=True
    )
    ends = np.cumsum(list(SHARES.values()))[:-1]
    part = np.searchsorted(ends, [_hash(row) for row in first.tolist()], side="right")
    names = np.array(list(SHARES))
    found: Array = names[part[group.reshape(-1)]]
    return found


def _hash(row: int) -> float:
    """Returns a number from 0 to 1 that depends on the row's number alone."""
    digest = hashlib.sha256(f"census/{row}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


CENSUS = Experiment(
    name="census",
    summary="nine questions about the people of a census table",
    tasks=lambda choice: census(choice.data_folder),
    network=census_network,
    methods=METHODS,
    # Ours. A task that all were asked sees two thirds of its rows once. Ten runs of a method take
    # about a minute on one core.
    training=TrainingSettings(
        rounds=600,
        batch_size=64,
        optimization=Optimization(learning_rate=1e-3, allocation_learning_rate=1e-2),
    ),
    n_runs=10,
    data=DataOptions(sets=("census",)),
    report=ReportOptions(title="Census", measure="score"),
)
