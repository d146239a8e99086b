"""One row of features for each example, whatever the inputs are."""

from typing import Any

import torch
from pytest import mark, raises
from torch.func import vmap
from torch.testing import assert_close

from allotment.allocation._features import example_features


def test_rows_are_returned_as_they_are() -> None:
    x = torch.randn(5, 6)
    assert example_features(x, 6) is x


@mark.parametrize("rest", [(1,), (7,), (4, 3), (2, 2, 2)])
def test_channels_are_averaged_over_all_that_follows(rest: tuple[int, ...]) -> None:
    x = torch.randn(5, 6, *rest)
    expected = torch.stack([torch.stack([channel.mean() for channel in own]) for own in x])
    assert_close(example_features(x, 6), expected)


@mark.parametrize("shape", [(2, 3), (1, 6), (3, 2, 1), (1, 2, 3)])
def test_other_inputs_of_as_many_numbers_are_flattened(shape: tuple[int, ...]) -> None:
    x = torch.randn(5, *shape)
    assert_close(example_features(x, 6), x.reshape(5, 6), rtol=0, atol=0)


def test_runs_are_batched_over() -> None:
    x = torch.randn(3, 5, 4, 2, 2)
    found = vmap(example_features, in_dims=(0, None))(x, 4)
    assert_close(found, x.mean((3, 4)))


@mark.parametrize(
    ("x", "found"),
    [
        (torch.ones(5, 7), r"shape \[5, 7\]"),
        (torch.ones(6), r"shape \[6\]"),
        (torch.ones(5, 2, 4), r"shape \[5, 2, 4\]"),
        (None, "NoneType"),
        ((torch.ones(5, 6),), "tuple"),
    ],
)
def test_other_inputs_are_refused(x: Any, found: str) -> None:
    rule = r"^`x` should be of shape \[B, 6\] or \[B, 6, \.\.\.\], or hold 6 numbers for each .*"
    with raises(ValueError, match=rf"{rule}Found {found}\.$"):
        example_features(x, 6)
