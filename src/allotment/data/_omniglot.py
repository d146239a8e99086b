"""Omniglot's two archives of small black-and-white pictures, one per drawing."""

import re
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from ._archives import check_member, damage_of
from ._declaration import Array, ArraySpec
from ._errors import DataError

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
    return {
        "images": images,
        "alphabet": np.array([index[d.split, d.alphabet] for d in drawings], dtype=np.int16),
        "character": np.array([d.character for d in drawings], dtype=np.int16),
        "drawer": np.array([d.drawer for d in drawings], dtype=np.int16),
        "file_id": np.array([d.file_id for d in drawings], dtype=np.int16),
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
