"""The idx files of MNIST and Fashion-MNIST: a magic number, the sizes, then plain bytes."""

import gzip
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ._archives import damage_of
from ._declaration import Array, ArraySpec
from ._errors import DataError

_UNSIGNED_BYTES = 0x0800  # the type in the magic number; its last byte counts the dimensions


def read_idx_files(archives: Sequence[Path], arrays: Mapping[str, ArraySpec]) -> dict[str, Array]:
    """Returns one array per archive, in the order in which ``arrays`` declares them."""
    pairs = zip(archives, arrays.items(), strict=True)
    return {name: _read(archive, spec.shape) for archive, (name, spec) in pairs}


def _read(archive: Path, shape: tuple[int, ...]) -> Array:
    """Returns the bytes of one gzipped idx file, uint8 of this ``shape``."""
    with damage_of(archive), gzip.open(archive) as file:
        _check_header(archive, file, shape)
        size = math.prod(shape)
        content = file.read(size + 1)  # one more, so that the end is reached and verified
    if len(content) != size:
        found = f"{len(content)}" if len(content) < size else "more"
        raise DataError(f"`{archive.name}` should hold {size} bytes of data. Found {found}.")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _check_header(archive: Path, file: gzip.GzipFile, shape: tuple[int, ...]) -> None:
    """Raises unless the magic number and the sizes are those of bytes of this ``shape``."""
    length = 4 + 4 * len(shape)
    header = file.read(length)
    magic = int.from_bytes(header[:4], "big")
    if magic != _UNSIGNED_BYTES + len(shape):
        raise DataError(
            f"`{archive.name}` should begin with the magic number "
            f"{_UNSIGNED_BYTES + len(shape):#010x}. Found {magic:#010x}."
        )
    if len(header) != length:
        raise DataError(
            f"`{archive.name}` should begin with {length} bytes of header. Found {len(header)}."
        )
    found = struct.unpack(f">{len(shape)}I", header[4:])
    if found != shape:
        raise DataError(f"`{archive.name}` should hold the sizes {shape}. Found {found}.")
