"""What every archive must satisfy before a byte of it is used."""

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath

from ._errors import DataError

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
    path = PureWindowsPath(
        name
    )  # takes both kinds of slashes, and drive letters, for what they are
    if path.anchor or ".." in path.parts:
        raise DataError(
            f"`{archive.name}` should hold paths inside its own folder. Found `{name}`."
        )
    if not is_plain:
        raise DataError(
            f"`{archive.name}` should hold plain files and folders. "
            f"Found a link or device, `{name}`."
        )
