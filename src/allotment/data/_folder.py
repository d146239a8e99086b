"""The data folder: where it is, which data sets are there, and their arrays."""

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pooch

from ._declaration import Array, DataSet
from ._errors import DataError, disk_faults
from ._registry import DATASETS, dataset_named
from ._store import read_arrays

_VARIABLE = "ALLOTMENT_DATA"


def data_folder(explicit: str | Path | None = None) -> Path:
    """Returns ``explicit``, or else ``$ALLOTMENT_DATA``, or else the user's cache folder."""
    if explicit is None:
        explicit = os.environ.get(_VARIABLE) or pooch.os_cache("allotment")
    return Path(explicit).expanduser()


@dataclass(frozen=True)
class Status:
    """A data set, the path of its prepared file, and that file's size; None if it is missing."""

    dataset: DataSet
    path: Path
    n_bytes: int | None

    @property
    def is_present(self) -> bool:
        """Whether the prepared file is there."""
        return self.n_bytes is not None


def status(
    folder: str | Path | None = None, datasets: Iterable[DataSet] = DATASETS.values()
) -> list[Status]:
    """Returns which data sets are there; no file is opened."""
    return [_status(dataset, data_folder(folder)) for dataset in datasets]


def _status(dataset: DataSet, folder: Path) -> Status:
    path = folder / dataset.file_name
    with disk_faults(folder):
        return Status(dataset, path, path.stat().st_size if path.is_file() else None)


def load(name: str | DataSet, folder: str | Path | None = None) -> dict[str, Array]:
    """Returns the arrays of a prepared data set, with the types and shapes that it declares."""
    dataset = dataset_named(name) if isinstance(name, str) else name
    found = _status(dataset, data_folder(folder))
    if not found.is_present:
        raise DataError(
            f"The data set `{dataset.name}` should be in `{found.path}`. Found no such file; "
            f"this gets it: {_command(dataset, found.path.parent)}"
        )
    arrays = read_arrays(found.path)
    try:
        dataset.check_shapes(arrays)
    except DataError as error:
        raise DataError(f"In `{found.path}`: {error}") from error
    return {array: arrays[array] for array in dataset.arrays}


def _command(dataset: DataSet, folder: Path) -> str:
    """Returns the command that prepares the data set in this folder."""
    where = "" if folder == data_folder() else f" --data-dir {shlex.quote(str(folder))}"
    return f"allotment data prepare {dataset.name}{where}"
