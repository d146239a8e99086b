"""Allocations decided by hand: their weights, and what they refuse."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import torch
from pytest import mark, param, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import Allocation, FixedMatrix, NoSharing, SharedBottom


def all_weights(allocation: Allocation) -> Tensor:
    """Returns the weights of every task, one row each."""
    return torch.stack([allocation.weights(task) for task in range(allocation.n_tasks)])


def test_shared_bottom_sums_unless_told_to_average() -> None:
    assert_close(all_weights(SharedBottom(2, 4)), torch.ones(2, 4))
    assert_close(all_weights(SharedBottom(2, 4, reduce="sum")), torch.ones(2, 4))
    assert_close(all_weights(SharedBottom(2, 4, reduce="mean")), torch.full((2, 4), 0.25))


def test_no_sharing_gives_consecutive_components() -> None:
    own = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    assert_close(NoSharing(2, 4).matrix(), own)
    assert_close(all_weights(NoSharing(2, 4)), own / 2)
    assert_close(all_weights(NoSharing(2, 4, reduce="sum")), own)
    assert_close(all_weights(NoSharing(3, 3)), torch.eye(3))


def not_a_multiple(found: str) -> AbstractContextManager[object]:
    return raises(
        ValueError,
        match=rf"`n_components` should be a multiple of `n_tasks` .* Found {found} tasks\.",
    )


@mark.parametrize(
    ("n_tasks", "n_components", "expectation"),
    [
        (2, 4, does_not_raise()),
        (2, 5, not_a_multiple("5 components for 2")),
        (2, 2, does_not_raise()),
        (4, 2, not_a_multiple("2 components for 4")),
        (2, 0, raises(ValueError, match=r"`n_components` should be at least 1\. Found .* = 0`")),
        param(
            0,
            2,
            raises(ValueError, match=r"`n_tasks` should be at least 1\. Found `n_tasks = 0`"),
        ),
    ],
)
def test_no_sharing_divides_evenly(
    n_tasks: int, n_components: int, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        NoSharing(n_tasks, n_components)


def test_a_fixed_matrix_averages_what_a_task_uses() -> None:
    allocation = FixedMatrix([[True, True, False], [False, True, False], [False, False, False]])
    expected = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert_close(all_weights(allocation), expected)
    assert_close(allocation.matrix(), (expected != 0).float())


def test_a_fixed_matrix_may_sum() -> None:
    matrix = torch.tensor([[1, 1, 0], [0, 1, 1]])
    assert_close(all_weights(FixedMatrix(matrix, reduce="sum")), matrix.float())


bad_matrix = r"`matrix` should be of shape \[T, C\] with entries 0 and 1\. Found shape "


@mark.parametrize(
    ("matrix", "expectation"),
    [
        ([[1, 0], [0, 1]], does_not_raise()),
        ([[True, False]], does_not_raise()),
        ([[1, 0], [0, 2]], raises(ValueError, match=bad_matrix + r"\[2, 2\] with .*2\.0\]")),
        ([[1.0, 0.5]], raises(ValueError, match=bad_matrix + r"\[1, 2\] with .*0\.5")),
        ([[1.0, float("nan")]], raises(ValueError, match=bad_matrix + r"\[1, 2\] with .*nan")),
        ([1, 0], raises(ValueError, match=bad_matrix + r"\[2\] ")),
    ],
)
def test_a_fixed_matrix_is_binary(
    matrix: list[list[bool]], expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        FixedMatrix(matrix)


@mark.parametrize(
    ("reduce", "expectation"),
    [
        ("sum", does_not_raise()),
        ("mean", does_not_raise()),
        ("max", raises(ValueError, match=r"`reduce` should be one of 'sum', 'mean'\. Found .*max")),
    ],
)
def test_reductions(reduce: str, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        SharedBottom(1, 2, reduce=reduce)
    with expectation:
        NoSharing(1, 2, reduce=reduce)
    with expectation:
        FixedMatrix([[True]], reduce=reduce)


@mark.parametrize("reduce", ["sum", "mean"])
def test_what_is_fixed_is_certain(reduce: str) -> None:
    for allocation in (SharedBottom(2, 4, reduce=reduce), NoSharing(2, 4, reduce=reduce)):
        assert_close(allocation.probabilities(), allocation.matrix())
        assert_close(allocation.probabilities(1), allocation.matrix()[1])
        assert not list(allocation.parameters())


def test_noise_and_mode_change_nothing() -> None:
    allocation = NoSharing(2, 4)
    expected = allocation.weights(1)
    assert_close(allocation.weights(1, noise=torch.rand(4)), expected)
    assert_close(allocation.eval().weights(1), expected)
    assert_close(allocation.weights(torch.tensor(1)), expected)


@mark.parametrize("allocation", [SharedBottom(2, 4), NoSharing(2, 4), FixedMatrix([[1, 0]])])
def test_nothing_is_learnt_drawn_or_counted(allocation: Allocation) -> None:
    assert not allocation.is_learnt
    assert allocation.n_noise == 0
    assert allocation.is_binary and allocation.same_in_evaluation
    allocation.advance()
    assert allocation.n_batches is None
    assert list(allocation.state_dict()) == ["table"]


def test_they_print_their_sizes() -> None:
    assert repr(SharedBottom(2, 4)) == "SharedBottom(n_tasks=2, n_components=4)"
    assert repr(NoSharing(2, 4)) == "NoSharing(n_tasks=2, n_components=4)"
    assert repr(FixedMatrix([[True, False]])) == "FixedMatrix(n_tasks=1, n_components=2)"


@mark.parametrize("fixed", [SharedBottom, NoSharing])
def test_counts_are_whole_numbers(fixed: type[SharedBottom | NoSharing]) -> None:
    with raises(TypeError, match=r"`n_components` should be a whole number\. Found .* = 4\.0`\."):
        fixed(2, 4.0)  # type: ignore[arg-type]


@mark.parametrize("matrix", [[[1, 0], [1]], "ab"])
def test_what_is_no_matrix_is_shown(matrix: Any) -> None:
    with raises(ValueError, match=r"shape \[T, C\] with entries 0 and 1\. Found `matrix = "):
        FixedMatrix(matrix)
