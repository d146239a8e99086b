"""What tells a damaged record from a whole one: hashes of files and of JSON values."""

import hashlib
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ._files import plain, reading

HASHES = "sha256"  # of the entry that holds them
_LINE = "crc32"  # of a line; a few letters, and any digit that changes is seen


def file_hash(path: Path) -> str:
    """Returns the hash of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def json_hash(value: dict[str, Any]) -> str:
    """Returns the hash of a JSON object, in whatever order it is written."""
    return hashlib.sha256(json.dumps(plain(value), sort_keys=True).encode()).hexdigest()


def sealed(value: dict[str, Any], name: str, others: Iterable[Path]) -> dict[str, Any]:
    """Returns what the file called ``name`` should hold: an object, its hash, and those of others.

    Files that are not there have none.
    """
    hashes = {path.name: file_hash(path) for path in others if path.exists()}
    content = {**plain(value), HASHES: hashes}
    return content | {HASHES: {**hashes, name: json_hash(content)}}


def check_seal(content: dict[str, Any], path: Path, *others: str) -> None:
    """Raises where an object, or a file beside it, differs from its hash; older ones have none."""
    with reading(path):
        hashes = dict(content.get(HASHES, {}))
        own = hashes.pop(path.name, None)
        if own is not None and own != json_hash({**content, HASHES: hashes}):
            raise ValueError("it has another hash than it says")
    for name in others:
        with reading(path.with_name(name)):
            if name in hashes and hashes[name] != file_hash(path.with_name(name)):
                raise ValueError(f"it has another hash than {path.name} says")


def checked_line(value: dict[str, Any]) -> str:
    """Returns an object as a line of JSON with a checksum of its own."""
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps({**value, _LINE: zlib.crc32(text.encode())}, ensure_ascii=False)


def read_line(line: bytes, number: int) -> dict[str, Any]:
    """Returns the object in a line, or raises where it differs from its checksum, if it has one."""
    value: dict[str, Any] = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"line {number} should be an object, not {type(value).__name__}")
    own = value.pop(_LINE, None)
    if own is not None and own != zlib.crc32(json.dumps(value, ensure_ascii=False).encode()):
        raise ValueError(f"line {number} has another checksum than it says")
    return value
