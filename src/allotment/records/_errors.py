"""What goes wrong with records, in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile

from safetensors import SafetensorError

_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile, SafetensorError)


class RecordError(Exception):
    """A record that cannot be written or read; its text is one sentence for people."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever goes wrong while reading ``path`` into a ``RecordError`` that names it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise RecordError(f"A record should be readable. Found `{path}`: {reason}.") from error
    except _DAMAGE as error:
        reason = f"{type(error).__name__}, {error}"
        raise RecordError(
            f"A record should be complete. Found `{path}` damaged: {reason}."
        ) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a refusal of the file system into a ``RecordError`` that names ``path``."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise RecordError(
            f"An output path should be writable. Found `{path}`: {reason}."
        ) from error
