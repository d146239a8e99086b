"""Files that are there in full or not at all, and JSON in which NaN survives."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._schema import Floats

from ._errors import reading, writing


def plain(value: Any) -> Any:
    """Returns ``value`` in JSON's own types; a number that is not finite becomes ``None``."""
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)


def floats(value: Any) -> Floats:
    """Returns numbers read from JSON as an array, with NaN where ``None`` stood."""
    return np.array(value, dtype=np.float64)


def number(value: float | None) -> float:
    """Returns a number read from JSON, NaN where it is ``None``."""
    return math.nan if value is None else float(value)


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
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as a JSON file for people to read as well."""
    write_bytes(path, (json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file."""
    with reading(path):
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError(f"an object was expected, not {type(value).__name__}")
        return value
