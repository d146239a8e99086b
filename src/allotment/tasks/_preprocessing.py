"""What becomes of the columns of a table: numbers for a network, and its outputs read back."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_choice
from ._columns import Column, columns_of, listed
from ._split import UNKNOWN

Floats = NDArray[np.float64]
Kind = Literal["classification", "regression"]


class InputColumn(ABC):
    """How a column becomes features, fitted on the rows of training.

    Where training had values that are not known, the last feature says that a value is not known.
    """

    name: str
    has_unknown: bool

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """A name for each of ``F`` features."""

    @abstractmethod
    def features(self, column: Column) -> NDArray[Any]:
        """Returns the features of a column, shape ``[N, F]``."""


@dataclass(frozen=True)
class NumberColumn(InputColumn):
    """Numbers and truth values, standardised; the mean stands for those that are not known.

    Attributes:
        name: Of the column.
        mean: Of the known values.
        std: Of the known values; 1 where all are alike.
        has_unknown: Whether a feature says that a value is not known.
    """

    name: str
    mean: float
    std: float
    has_unknown: bool

    @property
    def feature_names(self) -> list[str]:
        return [self.name, f"{self.name} unknown"][: 1 + self.has_unknown]

    def features(self, column: Column) -> NDArray[Any]:
        x = (_finite(self.name, column) - self.mean) / self.std
        features = [np.where(column.is_known, x, 0.0), ~column.is_known]
        return np.stack(features[: 1 + self.has_unknown], axis=1).astype(np.float64)


@dataclass(frozen=True)
class CategoryColumn(InputColumn):
    """Categories, one-hot; those that training has not seen are not known.

    Attributes:
        name: Of the column.
        categories: Each has a feature.
        has_unknown: Whether a feature says that a value is not known.
    """

    name: str
    categories: tuple[Any, ...]
    has_unknown: bool

    @property
    def feature_names(self) -> list[str]:
        names = [f"{self.name}={category}" for category in self.categories]
        return [*names, f"{self.name} unknown"] if self.has_unknown else names

    def features(self, column: Column) -> NDArray[Any]:
        places = {category: place for place, category in enumerate(self.categories)}
        n = len(places)
        kinds, found = _kinds(self.categories), _kinds(column.known())
        if found and not kinds & found:
            raise ValueError(
                f"Column {self.name!r} should hold {' and '.join(kinds)}s, as in training. "
                f"Found {column.known()[0]!r}."
            )
        # What is not known has the place behind the last.
        known = [places.get(value, n) for value in column.values.tolist()]
        place = np.where(column.is_known, np.array(known), n)
        return np.eye(n + 1, dtype=np.float32)[place][:, : n + self.has_unknown]


@dataclass(frozen=True)
class TargetColumn:
    """How a target becomes labels or numbers, fitted on the rows of training.

    Attributes:
        name: Of the column, and of its task.
        classes: In the order of the network's outputs; None in a regression.
        mean: What is taken from numbers.
        std: What numbers are then divided by.
    """

    name: str
    classes: tuple[Any, ...] | None = None
    mean: float = 0.0
    std: float = 1.0

    def targets(self, column: Column) -> Tensor:
        """Returns labels, or numbers, ``[N]``; where they are not known, -100 or 0."""
        if self.classes is None:
            numbers = (_finite(self.name, column) - self.mean) / self.std
            return torch.tensor(np.where(column.is_known, numbers, 0.0)).to(
                torch.get_default_dtype()
            )
        places = {value: place for place, value in enumerate(self.classes)}
        labels = [places.get(value, UNKNOWN) for value in column.values.tolist()]
        return torch.tensor(np.where(column.is_known, labels, UNKNOWN), dtype=torch.int64)

    def decoded(self, outputs: Tensor) -> NDArray[Any]:
        """Returns the classes, or the numbers in their own units, that outputs say, ``[N]``."""
        y = torch.as_tensor(outputs).detach().cpu()
        n = 1 if self.classes is None else len(self.classes)
        are_numbers = self.classes is None and y.ndim == 1
        if not are_numbers and (y.ndim, *y.shape[1:]) != (2, n):
            raise ValueError(
                f"The outputs for target {self.name!r} should be of shape [N, {n}]. "
                f"Found shape {list(y.shape)}."
            )
        if self.classes is None:
            numbers: Floats = y.double().reshape(len(y)).numpy() * self.std + self.mean
            return numbers
        same = len({type(value) for value in self.classes}) == 1
        values = np.array(self.classes, dtype=None if same else object)
        found: NDArray[Any] = values[y.argmax(dim=1).numpy()]
        return found


@dataclass(frozen=True)
class TablePreprocessing:
    """From the rows of a table to a network's inputs, and from its outputs to predictions.

    Attributes:
        inputs: How each column becomes features.
        targets: How each target becomes labels or numbers.
        unknown: The values that mean "not known", as they were given.
    """

    inputs: tuple[InputColumn, ...]
    targets: tuple[TargetColumn, ...]
    unknown: Any = None

    @property
    def feature_names(self) -> list[str]:
        """A name for each of the ``D`` features, such as "age" or "sex=F"."""
        return [name for column in self.inputs for name in column.feature_names]

    @property
    def n_features(self) -> int:
        """How many numbers a network is given of each row."""
        return len(self.feature_names)

    def transform(self, table: Any) -> Tensor:
        """Returns a network's inputs for the rows of a table, ``[N, D]``; it needs no targets."""
        return self.encoded(columns_of(table, prefix="x", unknown=self.unknown))

    def encoded(self, columns: Mapping[str, Column]) -> Tensor:
        """Returns a network's inputs for columns, ``[N, D]``."""
        missing = [way.name for way in self.inputs if way.name not in columns]
        if missing:
            rule = f"A table should have all columns of training. Found {list(columns)}, without"
            raise ValueError(f"{rule} {', '.join(map(repr, missing))}.")
        n = len(next(iter(columns.values())).values)
        x = torch.empty(n, self.n_features)
        start = 0
        for way in self.inputs:  # one after another: a table may be large
            features = torch.from_numpy(way.features(columns[way.name]))
            x[:, start : start + features.shape[1]] = features
            start += features.shape[1]
        return x

    def unknown_of(self, name: str) -> list[Any]:
        """Returns the values that mean "not known" in a column."""
        own = self.unknown.get(name) if isinstance(self.unknown, Mapping) else self.unknown
        return [value for value in listed(own) if value is not None]

    def target(self, task: str) -> TargetColumn:
        """Returns the target of this name."""
        check_choice("task", task, [target.name for target in self.targets])
        return next(target for target in self.targets if target.name == task)

    def decode(self, task: str, outputs: Tensor) -> NDArray[Any]:
        """Returns what a task's outputs say, ``[N]``: classes, or numbers in their own units."""
        return self.target(task).decoded(outputs)

    def to_dict(self) -> dict[str, Any]:
        """Returns all of it as what JSON can hold."""
        return {
            "inputs": [asdict(column) for column in self.inputs],  # type: ignore[call-overload]
            "targets": [asdict(target) for target in self.targets],
            "unknown": _listed(self.unknown),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TablePreprocessing":
        """Returns the preprocessing that `to_dict` has written down."""
        return cls(
            tuple(
                CategoryColumn(**_with_tuples(column))
                if "categories" in column
                else NumberColumn(**column)
                for column in values["inputs"]
            ),
            tuple(TargetColumn(**_with_tuples(target)) for target in values["targets"]),
            values["unknown"],
        )


def _listed(value: Any) -> Any:
    """Returns values that mean "not known" as lists, also those in a dict."""
    if isinstance(value, Mapping):
        return {name: _listed(own) for name, own in value.items()}
    return [own.item() if isinstance(own, np.generic) else own for own in listed(value)]


def _with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def fitted_input(name: str, column: Column, *, is_category: bool, limit: int) -> InputColumn:
    """Returns how a column becomes features, given its rows of training.

    Of categories, the ``limit`` that are most frequent have a feature of their own.
    """
    if not column.is_known.any():
        raise ValueError(
            f"Input {name!r} should have a known value in training. "
            f"Found none in {len(column.values)} rows."
        )
    if is_category or column.kind == "category":
        counts = Counter(column.known())
        kept = sorted(counts, key=lambda value: (-counts[value], *_order(value)))[:limit]
        has_unknown = len(kept) < len(counts) or not column.is_known.all()
        return CategoryColumn(name, tuple(sorted(kept, key=_order)), has_unknown)
    mean, std = _mean_and_std(name, column)
    return NumberColumn(name, mean, std, not column.is_known.all())


def fitted_target(name: str, column: Column, *, kind: Kind, standardize: bool) -> TargetColumn:
    """Returns how a target becomes labels or numbers, given its rows of training."""
    check_choice("kinds", kind, get_args(Kind))
    if not column.is_known.any():
        raise ValueError(
            f"Target {name!r} should have a known value in training. "
            f"Found none in {len(column.values)} rows."
        )
    if kind == "classification":
        return TargetColumn(name, tuple(sorted(set(column.known()), key=_order)))
    return TargetColumn(name, None, *_mean_and_std(name, column) if standardize else (0.0, 1.0))


def unseen(target: TargetColumn, column: Column) -> list[Any]:
    """Returns the known classes of a column that a target does not have."""
    has = set(target.classes or ())
    return sorted({value for value in column.known() if value not in has}, key=_order)


def _kinds(values: Collection[Any]) -> set[str]:
    return {_order(value)[0] for value in values}


def _order(value: Any) -> tuple[str, Any]:
    """Returns what values are sorted by: numbers before texts, each by itself."""
    return ("text" if isinstance(value, str) else "number"), value


def _mean_and_std(name: str, column: Column) -> tuple[float, float]:
    known = _finite(name, column)[column.is_known]
    std = float(known.std())
    return float(known.mean()), std if std > 1e-12 * max(1.0, float(np.abs(known).max())) else 1.0


def _finite(name: str, column: Column) -> Floats:
    """Returns a column's numbers; raises unless the known ones are numbers, and finite."""
    if column.kind == "category" and column.is_known.any():
        example = column.known()[0]
        raise ValueError(f"Column {name!r} should hold numbers, as in training. Found {example!r}.")
    numbers = column.numbers()
    n_infinite = int(np.isinf(numbers).sum())
    if n_infinite:
        raise ValueError(f"Column {name!r} should be finite. Found {n_infinite} infinite values.")
    return numbers
