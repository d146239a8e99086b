"""What is known of the published contents, on arrays small enough to count by hand."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import numpy as np
from pytest import mark, raises

from allotment.data import Array, DataError
from allotment.data._registry import ChannelMean, ClassCounts, DrawnCharacters
from tests.data._published import drawings


def _refused(match: str) -> AbstractContextManager[Any]:
    return raises(DataError, match=match)


@mark.parametrize(
    ("labels", "expectation"),
    [
        ([0, 1, 1], does_not_raise()),
        ([1, 0, 1], does_not_raise()),
        ([0, 0, 1], _refused(r"`y` should have 1 examples of class 0\. Found 2\.")),
        ([1, 1, 1], _refused(r"`y` should have 1 examples of class 0\. Found 0\.")),
        ([0, 1, 2], _refused(r"`y` should be below 2\. Found 2\.")),
    ],
)
def test_class_counts(labels: list[int], expectation: AbstractContextManager[Any]) -> None:
    with expectation:
        ClassCounts("y", (1, 2))({"y": np.array(labels, dtype=np.uint8)})


@mark.parametrize(
    ("mean", "expectation"),
    [
        ((0.2, 0.4, 1.0), does_not_raise()),
        ((0.200009, 0.4, 1.0), does_not_raise()),
        ((0.20002, 0.4, 1.0), _refused(r"mean \(0\.20002, .*\)\. Found \(0\.2, 0\.4, 1\.0\)\.")),
    ],
)
def test_channel_mean(mean: tuple[float, ...], expectation: AbstractContextManager[Any]) -> None:
    images = np.tile(np.array([51, 102, 255], dtype=np.uint8), (2, 4, 4, 1))
    with expectation:
        ChannelMean("x", mean)({"x": images})


@mark.parametrize(
    ("changes", "expectation"),
    [
        ({}, does_not_raise()),
        ({"alphabet_split": [0, 1, 1]}, _refused(r"\(4, 2\) characters\. Found \(2, 4\)\.")),
        ({"character": [0] * 18}, _refused(r"\(4, 2\) characters\. Found \(2, 1\)\.")),
        ({"drawer": [0] * 18}, _refused(r"name 3 drawers .* Found another number in `Greek`")),
        ({"alphabet": [3] * 18}, _refused(r"`alphabet` should be from 0 to 2\. Found 0 to 3\.")),
        ({"alphabet": [-1] * 18}, _refused(r"`alphabet` should be from 0 to 2\. Found -1 to 0\.")),
        ({"images": [2]}, _refused(r"`images` should be from 0 to 1\. Found 0 to 2\.")),
    ],
)
def test_drawn_characters(
    changes: Mapping[str, list[int]], expectation: AbstractContextManager[Any]
) -> None:
    arrays: dict[str, Array] = drawings().arrays
    changed = {name: np.array(values, dtype=np.int16) for name, values in changes.items()}
    with expectation:
        DrawnCharacters(n_characters=(4, 2), n_drawers=3)(arrays | changed)
