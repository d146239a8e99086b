"""Prepared files: written whole or not at all, and read back without pickles."""

import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np

from ._archives import DAMAGE
from ._declaration import Array
from ._errors import DataError


def write_arrays(path: Path, arrays: Mapping[str, Array], *, compress: bool) -> None:
    """Writes the arrays into one npz file that appears at ``path`` complete or not at all."""
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    save: Callable[..., None] = np.savez_compressed if compress else np.savez
    try:
        with part.open("xb") as file:
            save(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:  # also when interrupted; after the replacement nothing is left to remove
        part.unlink(missing_ok=True)


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
