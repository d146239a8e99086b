"""Tasks from one table: several targets, of which not all are known for every row."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_count
from ._columns import Column
from ._preprocessing import (
    Kind,
    TablePreprocessing,
    TargetColumn,
    fitted_input,
    fitted_target,
    unseen,
)
from ._roles import (
    check_names_are_there,
    check_serves_again,
    kinds_of,
    n_rows,
    roles_of,
    warn_of_constants,
    with_known_labels,
)
from ._rows import Held, Rows, rows_of_parts
from ._split import Split
from ._task import Task


@dataclass(frozen=True, eq=False)
class TableTasks(Sequence[Task]):
    """The tasks of a table, which `fit` takes as they are, and the way back from outputs.

    >>> import allotment as al
    >>> table = {"age": [30.0, 40.0, 50.0, 60.0] * 5, "home": ["rents", "owns", "owns", "?"] * 5}
    >>> tasks = al.tasks_from_table(table, ["home"], unknown="?")
    >>> tasks.n_features, tasks[0].n_outputs, tasks.preprocessing.decode("home", [[0.0, 1.0]])
    (1, 2, array(['rents'], dtype='<U5'))

    Attributes:
        tasks: One for each target, with the target's name; all splits refer to one tensor.
        preprocessing: From rows of a table to inputs, and from outputs to predictions.
    """

    tasks: tuple[Task, ...]
    preprocessing: TablePreprocessing

    @overload
    def __getitem__(self, place: int) -> Task: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Task, ...]: ...
    def __getitem__(self, place: int | slice) -> Task | tuple[Task, ...]:
        return self.tasks[place]

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __repr__(self) -> str:
        lines = [f"{self.n_features} features", *map(repr, self.tasks)]
        return "TableTasks(" + ",\n  ".join(lines) + ")"

    @property
    def n_features(self) -> int:
        """How many numbers a network is given of each row."""
        return self.preprocessing.n_features

    @property
    def classes(self) -> dict[str, tuple[Any, ...]]:
        """The classes of each classification, in the order of its outputs."""
        targets = self.preprocessing.targets
        return {target.name: target.classes for target in targets if target.classes is not None}

    def transform(self, table: Any) -> Tensor:
        """Returns a network's inputs for the rows of a table, ``[N, D]``."""
        return self.preprocessing.transform(table)

    def decode(self, task: str, outputs: Tensor) -> NDArray[Any]:
        """Returns what a task's outputs say, ``[N]``: classes, or numbers in their own units."""
        return self.preprocessing.decode(task, outputs)


def tasks_from_table(
    inputs: Any,
    targets: Any,
    *,
    validation: Held = 0.2,
    test: Held = 0.2,
    seed: int = 0,
    groups: Any = None,
    unknown: Any = None,
    categorical: Collection[str] = (),
    kinds: Mapping[str, Kind] | None = None,
    standardize_targets: bool = True,
    max_categories: int = 64,
    preprocessing: TablePreprocessing | None = None,
) -> TableTasks:
    """Returns a task for each target of a table; rows without a known target are left out of it.

    >>> table = {"age": [31, 45, None, 22], "sex": ["f", "m", "m", "f"]}
    >>> targets = {"smokes": ["no", None, "yes", "no"], "income": [2.5, 3.0, None, 1.5]}
    >>> tasks = tasks_from_table(table, targets, validation=None, test=None)
    >>> tasks
    TableTasks(4 features,
      Task('smokes': 3 train examples, 2 outputs),
      Task('income': 3 train examples, 1 output))
    >>> tasks.preprocessing.feature_names
    ['age', 'age unknown', 'sex=f', 'sex=m']
    >>> tasks.decode("smokes", torch.tensor([[0.1, 0.9]])).tolist()
    ['yes']

    Args:
        inputs: A frame of pandas or polars, a dict of columns, or an array or tensor ``[N, D]``,
            whose columns are then "x0", "x1" and so on. Numbers and truth values are standardised,
            texts and categories become one-hot. All of it is fitted on the rows of training.
        targets: Another such table (columns of an array are "y0", "y1" and so on), or names of
            columns of ``inputs``, which are then no inputs. Floating-point numbers make a
            regression; whole numbers, truth values, texts and categories a classification.
        validation: The share of rows to draw, or the rows: numbers or a mask; None: no such split.
            A row has the same part in all tasks.
        test: The same for the test split.
        seed: Of the rows that are drawn.
        groups: A value for each row, or the name of a column of ``inputs``: rows of one group
            stay together where rows are drawn. The column is no input.
        unknown: A value that means "not known", such as -1 or "?", a list of them, or a dict of
            either by column. None, NaN and pandas' NA always mean it.
        categorical: Columns of numbers that are categories.
        kinds: "classification" or "regression" for targets that would be taken for the other.
            Nothing is warned of a target that is named here.
        standardize_targets: Whether the targets of a regression get mean 0 and standard deviation
            1 over the rows of training, so that tasks count alike; its losses are then in these
            units. `TableTasks.decode` gives the original ones.
        max_categories: How many categories of a column have a feature; rarer ones share that of
            values that are not known.
        preprocessing: Of an earlier table whose network these tasks are for. Inputs become what
            they were there, with the same values of ``unknown``; targets of a name that it has
            keep their classes and units. What comes back has the targets of both tables.
    """
    check_count("max_categories", max_categories)
    if preprocessing is not None:
        check_serves_again(preprocessing, categorical)
    x, y, together = roles_of(inputs, targets, groups, unknown, preprocessing)
    check_names_are_there("categorical", categorical, list(x))
    old, kinds = preprocessing or TablePreprocessing((), (), unknown), kinds or {}
    known = {way.name: way for way in old.targets}
    kind_of = kinds_of(y, kinds, known)
    y = {name: with_known_labels(column, kind_of[name]) for name, column in y.items()}
    parts = rows_of_parts(n_rows(x), validation, test, seed, together)
    train = parts["train"]
    inputs_fitted = old.inputs or tuple(
        fitted_input(name, c.rows(train), is_category=name in categorical, limit=max_categories)
        for name, c in x.items()
    )
    new = {name: column.rows(train) for name, column in y.items() if name not in known}
    new_fitted = (
        fitted_target(name, column, kind=kind_of[name], standardize=standardize_targets)
        for name, column in new.items()
    )
    both = TablePreprocessing(inputs_fitted, (*old.targets, *new_fitted), old.unknown)
    _check_have_classes(both, y, parts, known)
    warn_of_constants(new, kinds)
    encoded = both.encoded(x)
    return TableTasks(tuple(_task(both.target(n), c, encoded, parts) for n, c in y.items()), both)


def _task(way: TargetColumn, column: Column, inputs: Tensor, parts: Mapping[str, Rows]) -> Task:
    """Returns a target's task; where a held-out part has no known value, it lacks that part."""
    targets = way.targets(column)
    splits = {}
    for name, rows in parts.items():
        own = rows[column.is_known[rows]]
        if len(own):
            splits[name] = Split(inputs, targets, torch.from_numpy(own))
    n_outputs = 1 if way.classes is None else len(way.classes)
    return Task(way.name, **splits, n_outputs=n_outputs)  # type: ignore[arg-type]


def _check_have_classes(
    preprocessing: TablePreprocessing,
    targets: Mapping[str, Column],
    parts: Mapping[str, Rows],
    known: Collection[str],
) -> None:
    """Raises unless targets have the classes of all rows."""
    for name, column in targets.items():
        _check_has_classes(preprocessing.target(name), column, parts, is_old=name in known)


def _check_has_classes(
    way: TargetColumn, column: Column, parts: Mapping[str, Rows], *, is_old: bool
) -> None:
    for name, rows in parts.items():
        new = [] if way.classes is None else unseen(way, column.rows(rows))
        if not new:
            continue
        leaves_out = f"`unknown={{{way.name!r}: [{new[0]!r}]}}` leaves the class out"
        if is_old:
            raise ValueError(
                f"Target {way.name!r} should have the classes of `preprocessing`, "
                f"{', '.join(map(repr, way.classes or ()))}. Found {new[0]!r}; {leaves_out}."
            )
        number = f"; `kinds={{{way.name!r}: 'regression'}}` predicts a number"
        raise ValueError(
            f"Target {way.name!r} should have all its classes in training. Found {new[0]!r} in "
            f"{name} alone. Another `seed`, or rows of your own choice, may help; {leaves_out}"
            + (number if column.kind == "whole" else "")
            + "."
        )
