"""Predictions from a file of inputs to a file of classes, probabilities and numbers."""

import csv
from collections.abc import Collection, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import first_line
from ..modules import TaskNetwork
from ..tasks import CategoryColumn, TablePreprocessing, TargetColumn
from ..training import predict

Arrays = dict[str, NDArray[Any]]
_TRUTHS = {"true": 1.0, "false": 0.0}


def read_inputs(path: Path, preprocessing: TablePreprocessing | None = None) -> Any:
    """Returns the inputs of a network that a CSV or npz file holds.

    With the preprocessing of a table, the file has its columns by name. Without, a CSV file has a
    column for each feature, and an npz file one array, or several by the names of the inputs.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "rows.npz", x=np.zeros((5, 8), dtype=np.float32))
    ...     print(read_inputs(Path(folder) / "rows.npz").shape)
    torch.Size([5, 8])

    Args:
        path: Of a CSV or npz file.
        preprocessing: Of the table that the network learnt from, if it learnt from one.
    """
    if path.suffix not in (".csv", ".npz"):
        raise ValueError(f"`inputs` should end in .csv or .npz. Found `{path.name}`.")
    is_text = path.suffix == ".csv"
    columns: dict[str, Any] = _read_csv(path) if is_text else _read_npz(path)
    if preprocessing is not None:
        return preprocessing.transform(_parsed(columns, preprocessing) if is_text else columns)
    if is_text:
        numbers = [_numbers(name, texts, {""}) for name, texts in columns.items()]
        return torch.tensor(numbers, dtype=torch.get_default_dtype()).T
    return _as_tensors(path, columns)


def _as_tensors(path: Path, columns: Mapping[str, NDArray[Any]]) -> Any:
    """Returns the arrays of a file, or the one that it holds."""
    for name, array in columns.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(
                f"`{path}` should hold arrays of numbers. Found {array.dtype} in {name!r}."
            )
    tensors = {name: torch.from_numpy(array) for name, array in columns.items()}
    return next(iter(tensors.values())) if len(tensors) == 1 else tensors


def _read_csv(path: Path) -> dict[str, list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            reader = csv.reader(file, strict=True)
            names, rows = next(reader, []), [row for row in reader if row]
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(
                f"`{path}` should be a CSV file in UTF-8. Found: {first_line(error)}"
            ) from error
    if not rows or len(set(names)) < len(names):
        raise ValueError(
            f"`{path}` should have a line of different names and a row at least. "
            f"Found {names} and {len(rows)} rows."
        )
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise ValueError(
                f"`{path}` should have {len(names)} values in each row, one for each name. "
                f"Found {len(row)} in row {number}."
            )
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except OSError:
        if not path.is_file():
            raise
        found = {}
    except Exception as error:  # a damaged archive, no archive, or one that holds Python objects
        raise ValueError(
            f"`{path}` should be an npz file of arrays of numbers or texts. "
            f"Found: {first_line(error)}"
        ) from error
    if not found:
        raise ValueError(f"`{path}` should be an npz file with an array at least. Found none.")
    return found


def _parsed(
    columns: Mapping[str, list[str]], preprocessing: TablePreprocessing
) -> dict[str, list[Any]]:
    """Returns columns; the texts of those that are inputs are read as what training had."""
    found: dict[str, list[Any]] = dict(columns)
    for way in preprocessing.inputs:
        texts = columns.get(way.name)
        if texts is None:  # which the preprocessing will tell
            continue
        if isinstance(way, CategoryColumn):
            # A category that training has not seen is not known, and so is an empty cell.
            known = {_said(value): value for value in way.categories}
            found[way.name] = [known.get(_said(text)) for text in texts]
        else:
            unknown = {"", *map(str, preprocessing.unknown_of(way.name))}
            found[way.name] = _numbers(way.name, texts, unknown)
    return found


def _said(value: Any) -> str:
    """Returns a category as a text that is the same for 7, 7.0, "7" and "7.0"."""
    try:
        return repr(float(value))
    except ValueError:
        return str(value)


def _numbers(name: str, texts: Sequence[str], unknown: Collection[str]) -> list[float]:
    """Returns the numbers of a column; those not known are NaN."""
    found = []
    for row, text in enumerate(texts, start=1):
        plain = text.strip()
        try:
            truth = _TRUTHS.get(plain.lower())
            found.append(nan if plain in unknown else float(plain) if truth is None else truth)
        except ValueError:
            raise ValueError(
                f"Column {name!r} should hold numbers. Found {text!r} in row {row}."
            ) from None
    return found


def predictions(
    network: TaskNetwork,
    inputs: Any,
    tasks: Sequence[str],
    *,
    preprocessing: TablePreprocessing | None = None,
    classifying: Collection[str] = (),
) -> Arrays:
    """Returns what a network predicts for inputs, as columns of a table.

    A task has a column of its name: classes, or numbers in their own units. Each class has one
    more, ``task=class``, with its probability. Of classes that no table names, the number counts.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> from allotment.deploy import predictions
    >>> layer = al.ModularLayer([nn.Linear(8, 4) for _ in range(2)], al.SharedBottom(2, 2))
    >>> network = al.MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
    >>> list(predictions(network, torch.randn(9, 8), ["a", "b"], classifying=["b"]))
    ['a', 'b', 'b=0', 'b=1', 'b=2']

    Args:
        network: A network that was trained.
        inputs: As it takes them.
        tasks: Names of tasks.
        preprocessing: Of the table that it learnt from, if any.
        classifying: Those of the tasks that tell classes, where it learnt from no table.
    """
    found: Arrays = {}
    for task in tasks:
        y = predict(network, inputs, task)
        target = None if preprocessing is None else preprocessing.target(task)
        classes = None if target is None else target.classes
        if target is None and task in classifying and y.ndim == 2:
            classes = tuple(range(y.shape[1]))
        found |= _columns(task, y, classes, target)
    return found


def _columns(
    task: str, y: Tensor, classes: tuple[Any, ...] | None, target: TargetColumn | None
) -> Arrays:
    if classes is not None:
        shares = y.softmax(dim=1)
        by_class = {f"{task}={c}": shares[:, at].numpy() for at, c in enumerate(classes)}
        return {task: TargetColumn(task, classes).decoded(y), **by_class}
    if target is not None:
        return {task: target.decoded(y)}
    if y.ndim != 2:
        return {task: y.numpy()}
    if y.shape[1] == 1:
        return {task: y[:, 0].numpy()}
    return {f"{task} {place}": y[:, place].numpy() for place in range(y.shape[1])}


def write_predictions(path: Path, columns: Arrays) -> None:
    """Writes columns into a CSV or an npz file.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_predictions(Path(folder) / "found.csv", {"price": np.array([1.5, 2.0])})
    ...     print((Path(folder) / "found.csv").read_text().splitlines())
    ['price', '1.5', '2.0']

    Args:
        path: Of a CSV or npz file.
        columns: As `predictions` returns them.
    """
    if path.suffix == ".npz":
        # Classes of several types are texts there: npz files hold no Python objects.
        plain = {n: c.astype(str) if c.dtype == object else c for n, c in columns.items()}
        np.savez_compressed(path, allow_pickle=False, **plain)
        return
    if path.suffix != ".csv":
        raise ValueError(f"`output` should end in .csv or .npz. Found `{path.name}`.")
    for name, column in columns.items():
        if column.ndim != 1:
            raise ValueError(
                "`output` should end in .npz where a task has more than a row of numbers for each "
                f"example. Found outputs of shape {list(column.shape)} for {name!r}."
            )
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
