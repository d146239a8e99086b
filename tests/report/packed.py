"""What a page holds to be explored, read back from its text."""

import base64
import json
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Packed = dict[str, NDArray[Any]]


def data_of(page: str) -> dict[str, Any]:
    """Returns the data of a page."""
    text = page.partition('id="data">')[2].partition("</script>")[0]
    found: dict[str, Any] = json.loads(text)
    return found


def end_of(run: dict[str, Any], suite: dict[str, Any]) -> Packed:
    """Returns the arrays of a run's end by name, as the page's script reads them."""
    n, size = len(suite["tasks"]), len(suite["tasks"]) * len(suite["components"])
    content, found = _bytes(run["end"]), {}
    for name, kind, count in (
        ("heights", "<f4", n - 1),
        ("tested", "<f4", n),
        ("merges", "<u2", 2 * (n - 1)),
        ("clusters", "<u2", n),
        ("used", "<u2", n),
        ("gates", "<i2", size),
        ("rows", "u1" if suite["binary"] else "<f4", size),
    ):
        length = count * np.dtype(kind).itemsize
        found[name], content = np.frombuffer(content[:length], kind), content[length:]
    assert not content, "Nothing should be left."
    return found


def over_time_of(run: dict[str, Any]) -> NDArray[Any]:
    """Returns the gates at each of the kept rounds, in whole percent, one row for each."""
    changes = np.frombuffer(_bytes(run["over_time"]), "<i2").reshape(len(run["at"]), -1)
    return changes.cumsum(axis=0)


def _bytes(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text), -15)
