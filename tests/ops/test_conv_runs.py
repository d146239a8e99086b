"""Convolutions of many channels with kernels for each run: the numbers and gradients of torch's."""

from typing import Any

import torch
from pytest import MonkeyPatch, fixture, mark
from torch import Tensor
from torch.func import vmap
from torch.testing import assert_close

from allotment._ops import _conv, on_streams, plain_operations
from allotment.paper.networks._same_padding import same_convolution
from tests.ops.both_ways import Operation, with_gradients

CHANNELS = 20  # more than the kernels for few take


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


@fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(_conv, "_is_on_gpu", lambda x: True)


def convolution(stride: tuple[int, int], *, biased: bool = False) -> Operation:
    def convolved(x: Tensor, weight: Tensor) -> Tensor:
        bias = torch.arange(len(weight)).to(weight) if biased else None
        return same_convolution(x, weight, bias, stride)

    return convolved


def assert_as_torch_has_it(
    operation: Operation, arguments: list[Tensor], monkeypatch: MonkeyPatch
) -> None:
    found = with_gradients(operation, arguments)
    with monkeypatch.context() as patched:
        patched.setattr(_conv, "_is_on_gpu", lambda x: False)
        expected = with_gradients(operation, arguments)
    for ours, torchs in zip(found, expected, strict=True):
        assert_close(ours, torchs, rtol=1e-9, atol=1e-9)


@mark.parametrize("stride", [(1, 1), (2, 2), (2, 1)], ids=str)
@mark.parametrize("kernel", [(1, 1), (3, 3), (1, 7)], ids=str)
@mark.parametrize("images", [(3, 6, 7), (3, 1, 1), (0, 6, 7)], ids=str)
@mark.parametrize("biased", [True, False])
def test_kernels_and_sizes(
    stride: tuple[int, int],
    kernel: tuple[int, int],
    images: tuple[int, int, int],
    biased: bool,
    monkeypatch: MonkeyPatch,
) -> None:
    n, *size = images
    sides = [numbers(2, n, CHANNELS, *size), numbers(2, 5, CHANNELS, *kernel)]
    over_runs = vmap(convolution(stride, biased=biased))
    assert_as_torch_has_it(over_runs, sides, monkeypatch)


def test_single_images(monkeypatch: MonkeyPatch) -> None:
    sides = [numbers(2, CHANNELS, 6, 7), numbers(2, 5, CHANNELS, 3, 3)]
    assert_as_torch_has_it(vmap(convolution((1, 1))), sides, monkeypatch)


@mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (1, 2)], ids=str)
@mark.parametrize("stride", [1, 2])
def test_runs_and_tasks(in_dims: Any, stride: int, monkeypatch: MonkeyPatch) -> None:
    one = convolution((stride, stride))
    sides = [numbers(2, CHANNELS, 6, 7), numbers(5, CHANNELS, 3, 3)]
    x, weight = (
        side if dim is None else numbers(*side.shape[:dim], 3, *side.shape[dim:])
        for side, dim in zip(sides, in_dims, strict=True)
    )
    assert_as_torch_has_it(vmap(one, in_dims=in_dims), [x, weight], monkeypatch)
    # In a joint step the tasks of a run share its kernels.
    over_tasks = vmap(one, in_dims=(0, None))
    tasks = x.expand(4, *x.shape) if in_dims[0] is None else x.unsqueeze(in_dims[0] + 1)
    assert_as_torch_has_it(vmap(over_tasks, in_dims=in_dims), [tasks, weight], monkeypatch)


def test_kernels_of_runs_that_tasks_share(monkeypatch: MonkeyPatch) -> None:
    over_tasks = vmap(vmap(convolution((1, 1))), in_dims=(0, None))
    sides = [numbers(4, 3, 2, CHANNELS, 6, 7), numbers(3, 5, CHANNELS, 3, 3)]
    assert_as_torch_has_it(over_tasks, sides, monkeypatch)


@mark.parametrize("learns", [0, 1], ids=["images", "kernels"])
def test_one_side_may_have_no_gradient(learns: int) -> None:
    sides = [numbers(2, 3, CHANNELS, 5, 5), numbers(2, 4, CHANNELS, 3, 3)]
    sides[learns].requires_grad_()
    over_runs = vmap(convolution((1, 1)))
    (found,) = torch.autograd.grad(over_runs(*sides).square().sum(), sides[learns])
    both = [side.detach().requires_grad_() for side in sides]
    expected = torch.autograd.grad(over_runs(*both).square().sum(), both)[learns]
    assert_close(found, expected)


@mark.slow
def test_derivatives_of_derivatives() -> None:
    sides = (numbers(2, 2, CHANNELS, 4, 3), numbers(2, 3, CHANNELS, 3, 3))
    learnt = tuple(side.requires_grad_() for side in sides)
    assert torch.autograd.gradgradcheck(vmap(convolution((2, 2))), learnt)


@fixture
def divided(monkeypatch: MonkeyPatch) -> list[int]:
    """In how many convolutions each was divided."""
    found: list[int] = []

    def noting(calls: Any, shared: Any) -> Any:
        found.append(len(calls))
        return on_streams(calls, shared)

    monkeypatch.setattr(_conv, "on_streams", noting)
    return found


@mark.parametrize(("type_of_images", "by_run"), [(torch.bfloat16, [3]), (torch.float32, [])])
def test_under_autocast_only_what_has_its_type_goes_run_by_run(
    type_of_images: torch.dtype, by_run: list[int], divided: list[int], monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device_type: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device_type: torch.bfloat16)
    x, weight = (numbers(3, 2, CHANNELS, 4, 4).to(type_of_images) for _ in range(2))
    vmap(convolution((1, 1)))(x, weight)
    assert divided == by_run


def test_without_runs_it_is_torchs_own(divided: list[int]) -> None:
    x, weight = numbers(3, 2, CHANNELS, 4, 4), numbers(2, CHANNELS, 3, 3)
    convolution((1, 1))(x[0], weight)
    vmap(convolution((1, 1)), in_dims=(0, None))(x, weight)
    assert divided == []


def test_recorded_operations_are_those_of_each_run(divided: list[int]) -> None:
    with plain_operations():  # as where a step is recorded to be compiled
        vmap(convolution((1, 1)))(numbers(3, 2, CHANNELS, 4, 4), numbers(3, 2, CHANNELS, 3, 3))
    assert divided == [3]
