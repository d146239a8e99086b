"""MNIST and Fashion-MNIST: what comes out, and what is refused."""

from pathlib import Path

import numpy as np
from pytest import mark

from tests.data._mirror import Mirror
from tests.data._published import digits, gz, idx
from tests.data._refusal import assert_refused

_FILE = "train-images-idx3-ubyte.gz"
_GOOD = digits().contents[_FILE]
_PIXELS = digits().arrays["x_train"]
_CONTENT = idx(_PIXELS)


@mark.parametrize(
    ("content", "match"),
    [
        (_GOOD[:-9], r"`train-images-idx3-ubyte\.gz` should be a complete archive\. Found: Comp"),
        (_GOOD[:-4] + bytes(4), r"`train.*gz` should be a complete archive\. Found: Incorrect len"),
        (_GOOD[:-8] + bytes(8), r"`train.*gz` should be a complete archive\. Found: CRC check"),
        (_CONTENT, r"`train.*gz` should be a complete archive\. Found: Not a gzipped file"),
        (b"", r"should begin with the magic number 0x00000803\. Found 0x00000000\."),
        (gz(b"\0\0\x08\1" + _CONTENT[4:]), r"number 0x00000803\. Found 0x00000801\."),
        (gz(_CONTENT[:9]), r"should begin with 16 bytes of header\. Found 9\."),
        (gz(idx(_PIXELS[1:])), r"sizes \(12, 5, 4\)\. Found \(11, 5, 4\)\."),
        (gz(_CONTENT[:-1]), r"should hold 240 bytes of data\. Found 239\."),
        (gz(_CONTENT + b"\0"), r"should hold 240 bytes of data\. Found more\."),
    ],
)
def test_damaged_archives_are_refused(
    content: bytes, match: str, mirror: Mirror, folder: Path
) -> None:
    published = digits().with_archive(_FILE, content)
    mirror.contents = published.contents
    assert_refused(published.at(mirror.url), folder, match)


def test_a_wrong_number_of_examples_in_a_class_is_refused(mirror: Mirror, folder: Path) -> None:
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 1], dtype=np.uint8)
    published = digits().with_archive("train-labels-idx1-ubyte.gz", gz(idx(labels)))
    mirror.contents = published.contents
    match = r"`y_train` should have 4 examples of class 1\. Found 5\."
    assert_refused(published.at(mirror.url), folder, match)
