"""Files that are there in full or not at all, JSON in which NaN survives, and what goes wrong."""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from .._checks import first_line
from .._schema import Floats


class RecordError(Exception):
    """A record that cannot be written or read; its text is one sentence for people."""


@contextmanager
def reading(path: Path, what: str = "A record") -> Iterator[None]:
    """Turns whatever goes wrong while reading ``path`` into a ``RecordError`` that names it."""
    try:
        yield
    except RecordError:  # which names a path already
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise RecordError(f"{what} should be readable. Found `{path}`: {reason}.") from error
    except Exception as error:  # what damage leads to depends on the libraries that read
        reason = f"{type(error).__name__}, {first_line(error)}"
        raise RecordError(
            f"{what} should be complete. Found `{path}` damaged: {reason}."
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


def file_name(text: str) -> str:
    """Returns ``text`` with everything but letters, digits and ``= . _ + -`` replaced."""
    return re.sub(r"[^\w=.+-]|^\.+", "_", text)


def plain(value: Any) -> Any:
    """Returns ``value`` in JSON's own types; a number that is not finite becomes ``None``.

    A function or a class becomes its name, and an object its class with its public numbers and
    texts.
    """
    match value:
        case float() if not math.isfinite(value):
            return None
        case None | bool() | str() | int() | float():
            return value
        case np.ndarray() | np.generic() | Tensor():
            return plain(value.tolist())
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return _outlined(value)


def _outlined(value: Any) -> Any:
    """Returns what JSON can hold of an object."""
    if hasattr(value, "__qualname__"):
        return value.__qualname__
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if not hasattr(value, "__dict__"):
        return str(value)
    public = {name: item for name, item in vars(value).items() if not name.startswith("_")}
    numbers = {name: item for name, item in public.items() if isinstance(item, int | float | str)}
    return {"kind": type(value).__name__, **plain(numbers)}


def floats(value: Any) -> Floats:
    """Returns numbers read from JSON as an array, with NaN where ``None`` stood."""
    return np.array(value, dtype=np.float64)


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk, as ``fsync`` does for a file's bytes."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Writes a file under another name and moves it into place, so that no reader sees half."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with writing(path):
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as a JSON file for people to read as well."""
    write_bytes(path, (json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path, what: str = "A record") -> dict[str, Any]:
    """Returns the object in a JSON file."""
    with reading(path, what):
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ValueError("it is not a file")
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError(f"an object was expected, not {type(value).__name__}")
        return value
