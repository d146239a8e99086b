"""Tables as columns: arrays, tensors, dicts of columns, and frames of pandas and polars."""

import sys
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .._checks import described, nearest

_TABLES = (
    "a frame of pandas or polars, a dict of columns, or a NumPy array or tensor of shape [N, D]"
)


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one column, and which of them are known.

    ``kind`` says what they are: "real" and "whole" numbers, "truth" values, or a "category".
    """

    values: NDArray[Any]  # [N]: float64, int64, bool, or objects
    is_known: NDArray[np.bool_]  # [N]
    kind: str

    def known(self) -> list[Any]:
        """Returns the values that are known, as Python has them."""
        found: list[Any] = self.values[self.is_known].tolist()
        return found

    def numbers(self) -> NDArray[np.float64]:
        """Returns the values as numbers; those that are not known are NaN."""
        return np.where(self.is_known, self.values, np.nan).astype(np.float64)

    def rows(self, rows: NDArray[Any]) -> "Column":
        """Returns some of the rows."""
        return Column(self.values[rows], self.is_known[rows], self.kind)


def columns_of(table: Any, *, prefix: str, unknown: object = None) -> dict[str, Column]:
    """Returns the columns of a table by name; those of an array are ``prefix`` and a number.

    ``unknown`` is a value that means "not known", a list of such values, or a dict of either by
    column. None, NaN and pandas' NA always mean it.
    """
    found = _by_name(table, prefix)
    columns = {}
    for name, values in found.items():
        own = unknown.get(name) if isinstance(unknown, Mapping) else unknown
        columns[name] = _column(name, values, {_plain(value) for value in listed(own)})
    lengths = {name: len(column.values) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The columns of a table should have one length. Found {lengths}.")
    if not lengths or not next(iter(lengths.values())):
        raise ValueError("A table should have at least one row and one column. Found none.")
    return columns


def listed(values: Any) -> list[Any]:
    """Returns one value, or several of them, as a list of what Python has."""
    if isinstance(values, Tensor | np.ndarray | np.generic):
        values = values.tolist()
    is_one = isinstance(values, str) or not isinstance(values, Collection)
    return [values] if is_one else list(values)


def chosen(columns: Mapping[str, Column], name: str, what: str) -> Column:
    """Returns the column of this name; raises unless it is there."""
    if name not in columns:
        names = ", ".join(map(repr, list(columns)[:8])) + ", ..." * (len(columns) > 8)
        raise ValueError(
            f"{what} should be a column of the table, which has {names}. Found {name!r}."
            + nearest(name, columns)
        )
    return columns[name]


def _by_name(table: Any, prefix: str) -> dict[str, Any]:
    """Returns what the columns of a table hold, by name."""
    if isinstance(table, Mapping):
        return _named(table, table)
    if hasattr(table, "to_frame") and hasattr(table, "name"):  # a series of pandas or polars
        return {str(table.name or f"{prefix}0"): table}
    if hasattr(table, "columns") and hasattr(table, "shape"):  # a frame
        return _named(table.columns, table)
    return _of_array(table, prefix)


def _named(names: Iterable[Any], table: Any) -> dict[str, Any]:
    """Returns columns by name, as a text; raises unless the names are different."""
    keys = list(names)
    found = {str(key): table[key] for key in keys}
    if len(found) < len(keys):
        raise ValueError(
            "The columns of a table should have different names. "
            f"Found {[str(key) for key in keys]}."
        )
    return found


def _of_array(table: Any, prefix: str) -> dict[str, Any]:
    """Returns the columns of an array, a tensor or a list of rows."""
    array = _numpy(np.array(table) if isinstance(table, list) else table)
    shape = list(array.shape) if isinstance(array, np.ndarray) else None
    if shape is None or len(shape) not in (1, 2):
        of_shape = "" if shape is None else f" of shape {shape}"
        raise ValueError(f"A table should be {_TABLES}. Found {described(table)}{of_shape}.")
    if array.dtype.names is not None:  # a structured array
        return {name: array[name] for name in array.dtype.names}
    array = array.reshape(len(array), -1 if array.size else max(array.shape[1:], default=0))
    return {f"{prefix}{place}": array[:, place] for place in range(array.shape[1])}


def _column(name: str, values: Any, unknown: set[object]) -> Column:
    array, is_known = _array(values)
    if array.ndim != 1 or array.dtype.kind not in "biufOUT":
        raise ValueError(
            f"Column {name!r} should hold a number, a truth value or a text for each row. "
            f"Found an array of shape {list(array.shape)} and type {array.dtype}."
        )
    if array.dtype.kind == "f":
        is_known = is_known & ~np.isnan(array)
    elif array.dtype.kind not in "biu":
        texts = array.tolist()
        array = _objects([value if type(value) is str else _plain(value) for value in texts])
        is_known = is_known & np.array([value is not None for value in array], dtype=bool)
    is_known = is_known & ~_are_among(array, unknown)
    kind = _kind(name, array, is_known)
    kind = "category" if _is_categorical(values) else kind
    return Column(_typed(array, is_known, kind), is_known, kind)


def _is_categorical(values: Any) -> bool:
    """Tells whether a series of pandas declares categories, be they numbers."""
    return hasattr(values, "isna") and str(values.dtype) == "category"


def _array(values: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Returns values as an array, and which of them a series has not marked as missing."""
    if hasattr(values, "is_null"):
        return _of_polars(values)
    if hasattr(values, "isna"):
        return _of_pandas(values)
    is_list = isinstance(values, list | tuple)
    array = _objects(list(values)) if is_list else np.asarray(_numpy(values))
    return array, np.ones(array.shape[:1], dtype=bool)


def _numpy(values: Any) -> Any:
    """Returns a tensor as an array; what is none stays."""
    if not isinstance(values, Tensor):
        return values
    # NumPy has no bfloat16.
    return (values.double() if values.is_floating_point() else values).detach().cpu().numpy()


def _of_polars(series: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    dtype, is_null = series.dtype, series.is_null().to_numpy()
    is_truth = str(dtype) == "Boolean"
    if not dtype.is_numeric() and not is_truth:
        return _objects(series.to_list()), ~is_null
    filled = series if dtype.is_float() else series.fill_null(False if is_truth else 0)
    return filled.to_numpy(), ~is_null


def _of_pandas(series: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    kind, is_null = series.dtype.kind, np.asarray(series.isna(), dtype=bool)
    if kind not in "biufmM":
        return _objects(series.tolist()), ~is_null
    if kind in "biu":  # others have a value of their own for what is missing
        series = series.fillna(False if kind == "b" else 0)
    types: dict[str, Any] = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}
    return series.to_numpy(dtype=types.get(kind)), ~is_null


def _objects(values: list[Any]) -> NDArray[Any]:
    """Returns a list as an array of objects ``[N]``, whatever they are."""
    return np.fromiter(values, dtype=object, count=len(values))


def _plain(value: Any) -> Any:
    """Returns a value as Python has it; one that is not known is None."""
    pandas = sys.modules.get("pandas")  # without it there is no such value
    if value is None or (pandas is not None and (value is pandas.NA or value is pandas.NaT)):
        return None
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and value != value else value


def _are_among(array: NDArray[Any], unknown: set[object]) -> NDArray[np.bool_]:
    """Tells which values mean "not known"."""
    if array.dtype == object:
        found = [isinstance(value, Hashable) and value in unknown for value in array.tolist()]
        return np.array(found, dtype=bool)
    numbers = [value for value in unknown if isinstance(value, int | float)]
    are_found: NDArray[np.bool_] = np.isin(array, numbers)
    return are_found


def _kind(name: str, array: NDArray[Any], is_known: NDArray[np.bool_]) -> str:
    if array.dtype != object:
        return {"b": "truth", "f": "real"}.get(array.dtype.kind, "whole")
    kinds = {type(value) for value in array[is_known]}
    strange = [kind.__name__ for kind in kinds if not issubclass(kind, str | bool | int | float)]
    if strange:
        raise ValueError(
            f"Column {name!r} should hold numbers, truth values or texts. Found {strange[0]}."
        )
    if kinds == {bool}:
        return "truth"
    if kinds == {int}:
        return "whole"
    return "real" if kinds and kinds <= {int, float} else "category"


def _typed(array: NDArray[Any], is_known: NDArray[np.bool_], kind: str) -> NDArray[Any]:
    """Returns values in the type of their kind; those that are not known are any."""
    if kind == "category":
        return array
    dtype = {"real": np.float64, "whole": np.int64, "truth": np.bool_}[kind]
    return np.where(is_known, array, 0).astype(dtype)
