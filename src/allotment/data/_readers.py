"""Published archives read: MNIST's files, CIFAR-100's, Omniglot's pictures; damage is told."""

import gzip
import math
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
from PIL import Image

from ._declaration import Array, ArraySpec, DataError

DAMAGE = (
    OSError,  # not a gzip file, or an offset that leads nowhere
    EOFError,
    RuntimeError,  # an encrypted member, or an unknown way of compression
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the readers of compressed files raise on damaged ones."""


@contextmanager
def damage_of(archive: Path) -> Iterator[None]:
    """Turns what the decompressors find wrong inside the block into a ``DataError``."""
    try:
        yield
    except DAMAGE as error:
        raise DataError(
            f"`{archive.name}` should be a complete archive. Found: {str(error).rstrip('.')}."
        ) from error


def check_member(archive: Path, name: str, *, is_plain: bool) -> None:
    """Raises unless the member is a plain file or a folder, with a path inside the archive.

    Nothing is ever unpacked to disk; an archive with such a member is not the published one.
    """
    path = PureWindowsPath(name)  # takes both kinds of slashes and drive letters for what they are
    if path.anchor or ".." in path.parts:
        raise DataError(
            f"`{archive.name}` should hold paths inside its own folder. Found `{name}`."
        )
    if not is_plain:
        raise DataError(
            f"`{archive.name}` should hold plain files and folders. "
            f"Found a link or device, `{name}`."
        )


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


_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_DAMAGE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)
_LARGEST = 65_536  # bytes; a published drawing has a few hundred
_PATH = re.compile(r"[^/]+/(?P<alphabet>[^/]+)/character(?P<character>\d+)/(\d+)_(\d+)\.png")


@dataclass(frozen=True, order=True)
class _Drawing:
    """One picture file; drawings are ordered as their names are, background alphabets first."""

    split: int
    alphabet: str
    character: int
    drawer: int
    file_id: int
    content: bytes = field(compare=False, repr=False)


def read_omniglot(archives: Sequence[Path], arrays: Mapping[str, ArraySpec]) -> dict[str, Array]:
    """Returns the drawings in order, 1 where there is ink, and whose drawing of what each is."""
    drawings = sorted(drawing for pair in enumerate(archives) for drawing in _drawings(*pair))
    shape = arrays["images"].shape
    if len(drawings) != shape[0]:
        raise DataError(f"The archives should hold {shape[0]} drawings. Found {len(drawings)}.")
    images = np.empty(shape, dtype=np.uint8)
    for image, drawing in zip(images, drawings, strict=True):
        image[...] = _ink(drawing, shape[1:])
    alphabets = sorted({(drawing.split, drawing.alphabet) for drawing in drawings})
    index = {alphabet: i for i, alphabet in enumerate(alphabets)}
    rows = [(index[d.split, d.alphabet], d.character, d.drawer, d.file_id) for d in drawings]
    names = ("alphabet", "character", "drawer", "file_id")
    return {
        "images": images,
        **dict(zip(names, np.array(rows, dtype=np.int16).T.copy(), strict=True)),
        "alphabet_names": np.array([name for _, name in alphabets]),
        "alphabet_split": np.array([split for split, _ in alphabets], dtype=np.int8),
    }


def _drawings(split: int, archive: Path) -> Iterator[_Drawing]:
    """Yields the drawings of one archive, once every member is checked."""
    with damage_of(archive), zipfile.ZipFile(archive) as pictures:
        members = pictures.infolist()
        for member in members:
            kind = stat.S_IFMT(member.external_attr >> 16)
            is_plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)  # 0: made without Unix modes
            check_member(archive, member.filename, is_plain=is_plain)
        for member in members:
            if not member.filename.endswith(".png"):
                continue
            if member.file_size > _LARGEST:
                raise DataError(
                    f"`{member.filename}` should have at most {_LARGEST} bytes. "
                    f"Found {member.file_size}."
                )
            yield _drawing(split, member.filename, pictures.read(member))


def _drawing(split: int, name: str, content: bytes) -> _Drawing:
    """Returns the drawing that the path of its file tells of; numbers there begin at 1."""
    found = _PATH.fullmatch(name)
    if found is None:
        raise DataError(
            f"A drawing should be named `FOLDER/ALPHABET/characterNN/NNNN_NN.png`. Found `{name}`."
        )
    alphabet, character, file_id, drawer = found.groups()
    return _Drawing(split, alphabet, int(character) - 1, int(drawer) - 1, int(file_id), content)


def _ink(drawing: _Drawing, shape: tuple[int, ...]) -> Array:
    """Returns the pixels of one drawing, 1 where the picture is black."""
    name = f"{drawing.file_id:04d}_{drawing.drawer + 1:02d}.png"
    if not drawing.content.startswith(_PNG_MAGIC):
        raise DataError(
            f"`{name}` of `{drawing.alphabet}` should begin with the magic number "
            f"{_PNG_MAGIC!r}. Found {drawing.content[: len(_PNG_MAGIC)]!r}."
        )
    try:
        with Image.open(BytesIO(drawing.content), formats=("PNG",)) as picture:
            if (picture.height, picture.width) != shape:
                raise DataError(
                    f"`{name}` of `{drawing.alphabet}` should have {shape} pixels. "
                    f"Found {(picture.height, picture.width)}."
                )
            return np.asarray(picture.convert("L")) < 128
    except _DAMAGE as error:
        raise DataError(
            f"`{name}` of `{drawing.alphabet}` should be a complete picture. Found: {error}."
        ) from error
