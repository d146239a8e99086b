"""Files as disks, people and other programs leave them."""

import json
import random
from pathlib import Path
from typing import Any

JUNK: list[Any] = [
    *(None, True, -1, 0, 3, 2**70, 1e308, float("nan"), float("inf")),
    *("", "x", "../../x", "\x1b[31m", [], [[]], ["x"], [None], {}, {"a": 1}, "9" * 400),
]


def damage(path: Path, chance: random.Random) -> str:
    """Damages a file somehow and returns how, for whoever has to find out what it led to."""
    content = path.read_bytes()
    ways = [_flipped, _cut, _overwritten, _emptied]
    if path.suffix in (".json", ".jsonl"):
        ways += [_changed_value] * 12
    way = chance.choice(ways)
    path.write_bytes(way(content, chance))
    return f"{path.name}: {way.__name__}"


def _flipped(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 5])):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _overwritten(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content))
    return content[:start] + chance.randbytes(chance.randrange(1, 40)) + content[start + 40 :]


def _emptied(content: bytes, chance: random.Random) -> bytes:
    return chance.choice([b"", b"\0" * len(content), b"[" * 100_000, b"{}", b"null", b"[1]"])


def _changed_value(content: bytes, chance: random.Random) -> bytes:
    """Gives some value at any depth another type, or leaves it out; hashes do not tell."""
    first, *others = content.splitlines() if content.count(b"\n{") else [content]
    value = json.loads(first)
    for unseen in ("sha256", "crc32"):
        value.pop(unseen, None)
    places = list(_places(value))
    holder, key = chance.choice(places)
    if chance.random() < 0.2:
        del holder[key]
    else:
        holder[key] = chance.choice(JUNK)
    return b"\n".join([json.dumps(value).encode(), *others]) + b"\n"


def _places(value: Any) -> Any:
    """Yields each place inside a JSON value, as its holder and its key or index."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs):
        yield value, key
        if isinstance(item, dict | list) and len(str(item)) < 5_000:
            yield from _places(item)
