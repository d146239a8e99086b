"""What is declared of a data set, and the one exception of this folder."""

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_FULL = {errno.ENOSPC, errno.EDQUOT}


class DataError(Exception):
    """A data set is missing, damaged or out of reach; the message says it in one sentence."""


@contextmanager
def disk_faults(folder: Path) -> Iterator[None]:
    """Turns what the operating system refuses inside the block into a ``DataError``."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DataError(
                f"`{folder}` should have room for the archives and the prepared file. "
                f"Found a full disk ({error.strerror})."
            ) from error
        raise DataError(
            f"`{folder}` should be a folder to read and write in. Found: {error}."
        ) from error


Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ArraySpec:
    """The type and shape of one prepared array; ``str`` stands for text of any length.

    >>> ArraySpec("uint8", (60000, 28, 28)).shape
    (60000, 28, 28)
    """

    dtype: str
    shape: tuple[int, ...]

    def check(self, name: str, array: Array) -> None:
        """Raises unless ``array`` has this type and this shape."""
        dtype = np.dtype(self.dtype)
        is_text = dtype.kind == array.dtype.kind == "U"
        if (array.dtype != dtype and not is_text) or array.shape != self.shape:
            raise DataError(
                f"`{name}` should be {self.dtype} of shape {self.shape}. "
                f"Found {array.dtype} of shape {array.shape}."
            )


Reader = Callable[[Sequence[Path], Mapping[str, ArraySpec]], dict[str, Array]]
"""Turns the archives, in declared order, into the declared arrays."""

Check = Callable[[Mapping[str, Array]], None]
"""Raises ``DataError`` unless the arrays hold what was published."""


@dataclass(frozen=True)
class Archive:
    """One published file: its name, its md5, and the addresses it is found under, best first."""

    name: str
    md5: str
    mirrors: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One published data set and the prepared file that is made of it.

    >>> from allotment.data import DATASETS
    >>> DATASETS["mnist"].name
    'mnist'

    Args:
        name: What users call it; the prepared file is ``NAME.npz``, unless it is as published.
        description: One line for people.
        archives: The published files, in the order ``read`` takes them.
        arrays: The arrays of the prepared file, by name.
        read: Turns the archives into the arrays.
        checks: What is true of the published content beyond types and shapes.
        compress: Whether compression makes the prepared file much smaller.
        as_published: The prepared file's name, where it is the one archive itself, unchanged.
    """

    name: str
    description: str
    archives: tuple[Archive, ...]
    arrays: Mapping[str, ArraySpec]
    read: Reader
    checks: tuple[Check, ...] = ()
    compress: bool = True
    as_published: str = ""

    @property
    def file_name(self) -> str:
        return self.as_published or f"{self.name}.npz"

    def check(self, arrays: Mapping[str, Array]) -> None:
        """Raises unless ``arrays`` are this data set's, in type, shape and content."""
        self.check_shapes(arrays)
        for check in self.checks:
            check(arrays)

    def check_shapes(self, arrays: Mapping[str, Array]) -> None:
        """Raises unless every declared array is there with its type and shape."""
        for name, spec in self.arrays.items():
            if name not in arrays:
                raise DataError(
                    f"The arrays should be {', '.join(self.arrays)}. Found no `{name}`."
                )
            spec.check(name, arrays[name])
