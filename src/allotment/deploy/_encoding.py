"""The preprocessing of a table as a module, so that it travels with an exported network."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..tasks import CategoryColumn, InputColumn, NumberColumn, TablePreprocessing

Columns = dict[str, NDArray[Any]]


class TableEncoder(nn.Module):
    """Turns the columns of a table into a network's inputs, as `TablePreprocessing` does.

    Numbers are float64 ``[N]``, NaN where they are not known. Categories that are texts are places
    among the column's categories, and any other number where they are not known.
    """

    def __init__(self, preprocessing: TablePreprocessing) -> None:
        super().__init__()
        ways = [
            _way(column, preprocessing.unknown_of(column.name)) for column in preprocessing.inputs
        ]
        self.columns = nn.ModuleList(ways)

    def forward(self, *columns: Tensor) -> Tensor:
        """Returns the features of rows, ``[N, D]``."""
        features = [way(x) for way, x in zip(self.columns, columns, strict=True)]
        return torch.cat(features, dim=1).to(torch.get_default_dtype())


class _Number(nn.Module):
    """Standardises numbers; those that are not known become 0, the mean."""

    def __init__(self, column: NumberColumn, unknown: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.std, self.has_unknown = column.mean, column.std, column.has_unknown
        self.unknown = list(unknown)

    def forward(self, x: Tensor) -> Tensor:
        is_unknown = x.isnan()
        for value in self.unknown:
            is_unknown = is_unknown | (x == value)
        known = torch.where(is_unknown, 0.0, (x - self.mean) / self.std)
        return torch.stack([known, is_unknown.to(x.dtype)][: 1 + self.has_unknown], dim=1)


class _Category(nn.Module):
    """One-hot; the last feature, if any, is of all that is none of the values."""

    values: Tensor

    def __init__(self, values: Tensor, has_unknown: bool) -> None:
        super().__init__()
        self.register_buffer("values", values)
        self.has_unknown = has_unknown

    def forward(self, x: Tensor) -> Tensor:
        found = x.unsqueeze(1) == self.values  # [N, K]
        is_unknown = ~found.any(dim=1, keepdim=True)
        return torch.cat([found, is_unknown][: 1 + self.has_unknown], dim=1).double()


def _way(column: InputColumn, unknown: Sequence[Any]) -> nn.Module:
    if isinstance(column, NumberColumn):
        return _Number(column, [float(value) for value in unknown if not isinstance(value, str)])
    assert isinstance(column, CategoryColumn)
    if is_text(column):
        return _Category(torch.arange(len(column.categories)), column.has_unknown)
    try:
        values = torch.tensor([float(value) for value in column.categories], dtype=torch.float64)
    except ValueError:
        raise ValueError(
            f"Column {column.name!r} should hold texts alone or numbers alone to be exported. "
            f"Found {column.categories}."
        ) from None
    return _Category(values, column.has_unknown)


def is_text(column: InputColumn) -> bool:
    """Tells whether a column holds texts; all others hold numbers."""
    categories = column.categories if isinstance(column, CategoryColumn) else ()
    return bool(categories) and all(isinstance(value, str) for value in categories)


def as_tensors(preprocessing: TablePreprocessing, rows: Columns) -> tuple[Tensor, ...]:
    """Returns the columns of rows as `TableEncoder` takes them."""
    found = []
    for column in preprocessing.inputs:
        values = rows[column.name]
        if is_text(column):
            places = {value: at for at, value in enumerate(column.categories)}  # type: ignore[attr-defined]
            found.append(torch.tensor([places.get(value, len(places)) for value in values]))
        else:
            found.append(torch.from_numpy(values.astype(np.float64)))
    return tuple(found)


def rows_from(preprocessing: TablePreprocessing, features: Tensor) -> Columns:
    """Returns rows of a table that have these features ``[N, D]``, up to rounding."""
    found: Columns = {}
    start = 0
    for column in preprocessing.inputs:
        own = features[:, start : start + len(column.feature_names)].double().numpy()
        start += own.shape[1]
        found[column.name] = _values(column, own)
    return found


def _values(column: InputColumn, features: NDArray[Any]) -> NDArray[Any]:
    if isinstance(column, NumberColumn):
        numbers = features[:, 0] * column.std + column.mean
        return np.where(features[:, 1] > 0, np.nan, numbers) if column.has_unknown else numbers
    assert isinstance(column, CategoryColumn)
    blank = "" if is_text(column) else np.nan
    values = np.array([*column.categories, blank], dtype=object if is_text(column) else np.float64)
    n = len(column.categories)
    is_known = features[:, :n].any(axis=1)
    chosen: NDArray[Any] = values[np.where(is_known, features[:, :n].argmax(axis=1), n)]
    return chosen


def random_rows(preprocessing: TablePreprocessing, n: int) -> Columns:
    """Returns rows drawn at random, some of whose values are not known."""
    rng = np.random.default_rng(0)
    found: Columns = {}
    for column in preprocessing.inputs:
        is_known = rng.random(n) < 0.9
        if isinstance(column, NumberColumn):
            numbers = rng.normal(column.mean, column.std, n)
            found[column.name] = np.where(is_known, numbers, np.nan)
        else:
            assert isinstance(column, CategoryColumn)
            features = np.eye(len(column.categories))[rng.integers(len(column.categories), size=n)]
            found[column.name] = _values(column, features * is_known[:, None])
    return found
