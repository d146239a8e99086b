"""The one exception of this folder, and how faults of the disk become it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
