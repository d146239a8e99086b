"""The data folder: where it is, which data sets are there, and their arrays."""

import os
import shlex
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import numpy as np
import pooch

from ._declaration import Array, DataError, DataSet, disk_faults
from ._readers import DAMAGE
from ._registry import DATASETS, dataset_named


@contextmanager
def _in_full(path: Path) -> Iterator[BinaryIO]:
    """Gives a file to write that appears at ``path`` complete or not at all."""
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:  # also when interrupted; after the replacement nothing is left to remove
        part.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, Array], *, compress: bool) -> None:
    """Writes the arrays into one npz file."""
    save: Callable[..., None] = np.savez_compressed if compress else np.savez
    with _in_full(path) as file:
        save(file, **arrays)


def read_arrays(path: Path) -> dict[str, Array]:
    """Returns the arrays of an npz file by name."""
    try:
        with path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):  # else NumPy would speak of pickles
                raise ValueError("no zip archive")
            stream.seek(0)
            return dict(np.load(stream, allow_pickle=False))
    except (*DAMAGE, ValueError) as error:
        raise DataError(f"`{path}` should be a complete npz file. Found: {error}.") from error


def copy_file(source: Path, path: Path) -> None:
    """Copies a file."""
    with source.open("rb") as old, _in_full(path) as new:
        shutil.copyfileobj(old, new)


@contextmanager
def folder_made(folder: Path) -> Iterator[None]:
    """Makes the folder; should the block fail, takes back the folders it made and left empty."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for each in made:
            with suppress(OSError):  # not empty: verified archives stay
                each.rmdir()
        raise


_VARIABLE = "ALLOTMENT_DATA"


def data_folder(explicit: str | Path | None = None) -> Path:
    """Returns ``explicit``, or else ``$ALLOTMENT_DATA``, or else the user's cache folder.

    >>> data_folder("data").name
    'data'
    """
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
        return self.n_bytes is not None


def status(
    folder: str | Path | None = None, datasets: Iterable[DataSet] = DATASETS.values()
) -> list[Status]:
    """Returns which data sets are there; no file is opened.

    Args:
        folder: Where prepared data sets lie; None: where they lie by default.
        datasets: Those that are asked for.
    """
    return [_status(dataset, data_folder(folder)) for dataset in datasets]


def _status(dataset: DataSet, folder: Path) -> Status:
    path = folder / dataset.file_name
    with disk_faults(folder):
        return Status(dataset, path, path.stat().st_size if path.is_file() else None)


def load(name: str | DataSet, folder: str | Path | None = None) -> dict[str, Array]:
    """Returns the arrays of a prepared data set, with the types and shapes that it declares.

    Args:
        name: Of the data set, or its declaration.
        folder: Where prepared data sets lie; None: where they lie by default.
    """
    dataset = dataset_named(name) if isinstance(name, str) else name
    found = _status(dataset, data_folder(folder))
    if not found.is_present:
        raise DataError(
            f"The data set `{dataset.name}` should be in `{found.path}`. Found no such file; "
            f"this gets it: {_command(dataset, found.path.parent)}"
        )
    arrays = _arrays(dataset, found.path)
    try:
        dataset.check_shapes(arrays)
    except DataError as error:
        raise DataError(f"In `{found.path}`: {error}") from error
    return {array: arrays[array] for array in dataset.arrays}


def _arrays(dataset: DataSet, path: Path) -> dict[str, Array]:
    """Returns the arrays of a prepared file, which may be the archive itself."""
    if not dataset.as_published:
        return read_arrays(path)
    with disk_faults(path.parent):
        return dataset.read([path], dataset.arrays)


def _command(dataset: DataSet, folder: Path) -> str:
    """Returns the command that prepares the data set in this folder."""
    where = "" if folder == data_folder() else f" --data-dir {shlex.quote(str(folder))}"
    return f"allotment data prepare {dataset.name}{where}"
