"""CIFAR-100's binary archive: fixed-length records, and two lists of names; no pickles."""

import gzip
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from ._archives import check_member, damage_of
from ._declaration import Array, ArraySpec
from ._errors import DataError

_PARTS = ("train", "test")
_NAMES = ("fine", "coarse")
_N_LABELS = 2  # a record begins with its coarse and its fine label
_N_CHANNELS = 3
_CHUNK = 65_536


def read_cifar100(archives: Sequence[Path], arrays: Mapping[str, ArraySpec]) -> dict[str, Array]:
    """Returns images ``[n, side, side, 3]``, fine and coarse labels, and the names of both."""
    (archive,) = archives
    sizes: dict[str, int | None] = {f"{kind}_label_names.txt": None for kind in _NAMES}
    sizes |= {f"{part}.bin": _n_bytes(arrays[f"x_{part}"].shape) for part in _PARTS}
    members = _read_members(archive, sizes)
    result: dict[str, Array] = {}
    for part in _PARTS:
        result |= _split_records(part, members[f"{part}.bin"], arrays[f"x_{part}"].shape)
    for kind in _NAMES:
        text = members[f"{kind}_label_names.txt"].decode("ascii", errors="replace")
        result[f"{kind}_names"] = np.array(text.split())
    return result


def _n_bytes(shape: tuple[int, ...]) -> int:
    n, height, width, channels = shape
    return n * (_N_LABELS + height * width * channels)


def _read_members(archive: Path, sizes: Mapping[str, int | None]) -> dict[str, bytes]:
    """Returns the content of the members named in ``sizes``, each of the size given there."""
    members: dict[str, bytes] = {}
    with damage_of(archive), gzip.open(archive) as stream:
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            members.update(_files(archive, tar, sizes))
        while stream.read(_CHUNK):  # to the very end, where the checksum is
            pass
    for name in sizes:
        if name not in members:
            raise DataError(f"`{archive.name}` should hold {', '.join(sizes)}. Found no `{name}`.")
    return members


def _files(
    archive: Path, tar: tarfile.TarFile, sizes: Mapping[str, int | None]
) -> Iterator[tuple[str, bytes]]:
    """Yields name and content of the wanted files; every member is checked on the way."""
    for member in tar:
        check_member(archive, member.name, is_plain=member.isreg() or member.isdir())
        name = PurePosixPath(member.name).name
        file = tar.extractfile(member) if name in sizes else None
        if file is None:  # a folder, or not wanted
            continue
        if sizes[name] not in (None, member.size):
            raise DataError(
                f"`{name}` in `{archive.name}` should have {sizes[name]} bytes. "
                f"Found {member.size}."
            )
        yield name, file.read()


def _split_records(part: str, content: bytes, shape: tuple[int, ...]) -> dict[str, Array]:
    """Returns the images, channels last, and the two labels of each record."""
    n, height, width, _ = shape
    records = np.frombuffer(content, dtype=np.uint8).reshape(n, -1)
    images = records[:, _N_LABELS:].reshape(n, _N_CHANNELS, height, width)
    return {
        f"x_{part}": np.ascontiguousarray(images.transpose(0, 2, 3, 1)),
        f"y_{part}_fine": records[:, 1].copy(),
        f"y_{part}_coarse": records[:, 0].copy(),
    }
