"""Splits: what they hold, what a network is given of them, and what they refuse."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise

import numpy as np
import torch
from pytest import mark, param, raises
from torch import Tensor
from torch.testing import assert_close
from torch.utils.data import Dataset, TensorDataset

from allotment.tasks import IndexedExamples, Split, Task, preprocess

NAN, INFINITE = float("nan"), float("inf")


class Squares(Dataset[tuple[Tensor, int]]):
    """A map-style data set of numbers and their squares."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        return torch.tensor([float(position), 1.0]), position**2


def test_a_split_has_as_many_examples_as_rows() -> None:
    inputs, targets = torch.randn(5, 3), torch.randn(5)
    assert len(Split(inputs, targets)) == 5
    assert len(Split(inputs, targets, rows=torch.tensor([4, 1]))) == 2


def test_examples_are_the_rows_under_the_permutation() -> None:
    inputs = torch.arange(12.0).view(3, 4)
    split = Split(inputs, torch.arange(3), torch.tensor([2, 0]), torch.tensor([3, 2, 1, 0]))
    x, y = split.examples()
    assert_close(x, torch.tensor([[11.0, 10.0, 9.0, 8.0], [3.0, 2.0, 1.0, 0.0]]))
    assert_close(y, torch.tensor([2, 0]))


def test_bytes_are_seen_as_floating_point_and_scaled() -> None:
    pixels = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    x, _ = Split(pixels, torch.tensor([1]), scale=1 / 255).examples()
    assert_close(x, torch.tensor([[0.0, 0.2, 1.0]]))


def test_a_permutation_keeps_the_shape() -> None:
    images = torch.randn(5, 2, 3, 3)
    permutation = torch.randperm(18)
    seen = preprocess(images, permutation, 2.0)
    assert seen.shape == images.shape
    assert_close(seen.flatten(1), 2.0 * images.flatten(1)[:, permutation])


@mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float64])
def test_inputs_of_a_type_that_a_network_takes_stay_what_they_are(dtype: torch.dtype) -> None:
    inputs, permutation = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype), torch.tensor([2, 0, 1])
    kept = preprocess(inputs, permutation, 1.0, keep=(dtype, torch.int32))
    assert kept.dtype == dtype
    assert torch.equal(kept, inputs[:, permutation])
    made = preprocess(inputs, permutation, 1.0, keep=(torch.int32,))
    assert made.dtype == torch.get_default_dtype()
    assert_close(made, kept.to(made.dtype))


@mark.parametrize("dtype", [torch.int32, torch.int64])
def test_token_ids_stay_integers(dtype: torch.dtype) -> None:
    tokens = torch.tensor([[3, 1], [2, 2]], dtype=dtype)
    x, _ = Split(tokens, torch.tensor([0, 1])).examples()
    assert x.dtype == dtype
    assert torch.equal(x, tokens)


@mark.parametrize(
    ("n_inputs", "n_targets", "expectation"),
    [
        (3, 3, does_not_raise()),
        (3, 2, raises(ValueError, match=r"should have equal lengths\. Found 3 and 2\.")),
        (1, 1, does_not_raise()),
        (0, 0, raises(ValueError, match=r"at least one example\. Found 0\.")),
    ],
)
def test_lengths(
    n_inputs: int, n_targets: int, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        Split(torch.randn(n_inputs, 2), torch.randn(n_targets))


def test_a_split_without_rows_is_empty() -> None:
    with raises(ValueError, match=r"A split should hold at least one example\. Found 0\."):
        Split(torch.randn(3, 2), torch.randn(3), rows=torch.tensor([], dtype=torch.int64))


@mark.parametrize(
    ("inputs", "targets", "expectation"),
    [
        ([1.0, 2.0], [1.0, 2.0], does_not_raise()),
        ([1, 2], [1, 2], does_not_raise()),
        ([NAN, 2.0], [1.0, 2.0], raises(ValueError, match=r"`inputs` should be finite\. Found 1 ")),
        ([NAN, -INFINITE], [1, 2], raises(ValueError, match=r"`inputs` should .* Found 2 NaN or")),
        ([1.0, 2.0], [1.0, NAN], raises(ValueError, match=r"`targets` should be finite\. Found 1")),
    ],
)
def test_numbers_are_finite(
    inputs: list[float], targets: list[float], expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        Split(torch.tensor(inputs), torch.tensor(targets))


@mark.parametrize(
    "source",
    [
        param(
            (torch.tensor([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), torch.tensor([0, 1, 4])), id="pair"
        ),
        param([np.array([[0, 1], [1, 1], [2, 1]], np.float32), np.array([0, 1, 4])], id="arrays"),
        param(Squares(3), id="a data set"),
        param(
            TensorDataset(
                torch.tensor([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), torch.tensor([0, 1, 4])
            ),
            id="torch's data set",
        ),
        param([(np.array([n, 1], np.float32), n**2) for n in range(3)], id="a list of examples"),
        param(
            [(torch.tensor([float(n), 1.0]), n**2) for n in (0, 2)],
            id="a list of two examples",
        ),
    ],
)
def test_a_task_takes_tensors_arrays_and_data_sets(source: object) -> None:
    held = Task("squares", train=source).held_out("train")
    assert isinstance(held, Split | IndexedExamples)
    x, y = held.fetch(torch.arange(len(held)))
    assert_close(x[-1], torch.tensor([2.0, 1.0]))
    assert y[-1] == 4
    assert (x[:, 0].square() == y).all()


def test_an_empty_data_set_is_refused() -> None:
    with raises(ValueError, match=r"^Task 'squares', train: .* at least one example\. Found 0\.$"):
        Task("squares", train=Squares(0))


def test_arrays_in_double_precision_are_seen_in_the_networks_precision() -> None:
    split = Task("a", train=(np.random.default_rng(0).random((3, 2)), np.zeros(3))).split("train")
    assert split is not None
    x, _ = split.examples()
    assert x.dtype == torch.get_default_dtype()


@mark.parametrize(
    ("rows", "expectation"),
    [
        ([0, 4], does_not_raise()),
        ([0, 5], raises(ValueError, match=r"`rows` .* numbers from 0 to 4\. Found 0 to 5\.")),
        ([-1, 2], raises(ValueError, match=r"from 0 to 4\. Found -1 to 2\.")),
        ([True, False, True, False, True], raises(ValueError, match=r"to 4\. Found bool\.")),
    ],
)
def test_rows_are_positions(rows: list[int], expectation: AbstractContextManager[object]) -> None:
    with expectation:
        Split(torch.zeros(5, 2), torch.zeros(5), rows=torch.tensor(rows))
