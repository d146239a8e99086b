"""Omniglot: what is refused of its archives of pictures."""

import stat
from pathlib import Path

import numpy as np
from pytest import mark

from tests.data._mirror import Mirror
from tests.data._published import drawing_members, drawings, png, zipped
from tests.data._refusal import assert_refused

_FILE = "images_evaluation.zip"
_MEMBERS = drawing_members(drawings().arrays)[1]
_FIRST = next(iter(_MEMBERS))
_PICTURE = _MEMBERS[_FIRST]
_LARGE = png(np.zeros((7, 8), dtype=np.uint8))


def _with_first(content: bytes) -> bytes:
    return zipped(_MEMBERS | {_FIRST: content})


@mark.parametrize(
    ("content", "match"),
    [
        (zipped(_MEMBERS | {"../a.png": b""}), r"paths inside its own folder\. Found `\.\./a\.png"),
        (zipped(_MEMBERS | {"/a.png": b""}), r"paths inside its own folder\. Found `/a\.png`\."),
        (zipped(_MEMBERS | {"a\\..\\..\\b": b""}), r"paths inside its own folder\. Found `a\\"),
        (zipped(_MEMBERS, modes={_FIRST: stat.S_IFLNK}), r"Found a link or device, `images_eval"),
        (zipped(_MEMBERS)[:-30], r"`images_evaluation\.zip` should be a complete archive\."),
        (zipped(_MEMBERS).replace(_PICTURE, _PICTURE[:-1] + b"\0"), r"Found: Bad CRC-32 for file"),
        (b"", r"`images_evaluation\.zip` should be a complete archive\. Found: File is not a zip"),
        (_with_first(b"GIF89a" + _PICTURE), r"with the magic number .*PNG.*\. Found b'GIF89a"),
        (_with_first(_PICTURE[:45]), r"`0897_03\.png` of `Angelic` should be a complete picture\."),
        (_with_first(_LARGE), r"`Angelic` should have \(7, 7\) pixels\. Found \(7, 8\)\."),
        (_with_first(bytes(70_000)), r"should have at most 65536 bytes\. Found 70000\."),
        (zipped(_MEMBERS | {"a/b.png": _PICTURE}), r"characterNN/NNNN_NN\.png`\. Found `a/b\.png`"),
        (zipped({}), r"The archives should hold 18 drawings\. Found 12\."),
    ],
)
def test_damaged_archives_are_refused(
    content: bytes, match: str, mirror: Mirror, folder: Path
) -> None:
    published = drawings().with_archive(_FILE, content)
    mirror.contents = published.contents
    assert_refused(published.at(mirror.url), folder, match)
