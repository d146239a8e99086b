"""Kernels for convolutions of few channels: the numbers and the gradients of torch's own."""

from collections.abc import Callable
from typing import Any

import torch
from pytest import MonkeyPatch, mark, raises
from torch import Tensor
from torch.func import vmap
from torch.testing import assert_close

from allotment._ops import own_kernels
from allotment.paper.networks._same_padding import same_convolution, same_window
from tests.ops.both_ways import DEVICE, BothWays, Operation, needs_kernels

pytestmark = needs_kernels


def convolution(stride: int) -> Operation:
    return lambda x, weight: same_convolution(x, weight, None, (stride, stride))


@mark.parametrize("stride", [1, 2, 3])
@mark.parametrize("kernel", [(3, 3), (5, 5), (1, 7), (2, 4), (1, 1)])
@mark.parametrize("size", [(1, 1), (8, 8), (5, 9)])
def test_convolutions_of_few_channels(
    stride: int,
    kernel: tuple[int, int],
    size: tuple[int, int],
    dot_dtype: torch.dtype,
    assert_same: BothWays,
) -> None:
    x, weight = torch.randn(3, 8, *size).to(dot_dtype), torch.randn(5, 8, *kernel).to(dot_dtype)
    assert_same(convolution(stride), [x, weight])


# More pixels than one share of a kernel's gradient, and more outputs than fit at once.
@mark.parametrize("n_outputs", [8, 70])
@mark.parametrize("n_channels", [3, 12, 16])
def test_convolutions_in_several_parts(
    n_outputs: int, n_channels: int, dot_dtype: torch.dtype, assert_same: BothWays
) -> None:
    x, weight = torch.randn(5, n_channels, 22, 21), torch.randn(n_outputs, n_channels, 3, 3)
    assert_same(convolution(1), [x.to(dot_dtype), weight.to(dot_dtype)])


def test_places_may_need_more_than_32_bits(monkeypatch: MonkeyPatch, assert_same: BothWays) -> None:
    from allotment._ops._kernels import _conv

    monkeypatch.setattr(_conv, "WIDE_FROM", 1)
    assert_same(convolution(2), [torch.randn(3, 8, 9, 6), torch.randn(5, 8, 3, 3)])


@mark.parametrize("learns", ["images", "kernels"])
def test_convolutions_where_one_side_has_no_gradient(
    learns: str, choose: Callable[[bool], None]
) -> None:
    sides = {"images": torch.randn(2, 8, 5, 5), "kernels": torch.randn(3, 8, 3, 3)}
    results = []
    for fused in (True, False):
        choose(fused)
        own = {k: side.to(DEVICE).requires_grad_(k == learns) for k, side in sides.items()}
        y = convolution(2)(own["images"], own["kernels"])
        results.append(torch.autograd.grad(y.square().sum(), own[learns])[0])
    assert_close(*results, rtol=1e-4, atol=1e-3)


def test_a_second_derivative_is_refused(choose: Callable[[bool], None]) -> None:
    choose(True)
    x = torch.randn(2, 8, 5, 5, device=DEVICE, requires_grad=True)
    y = convolution(1)(x, torch.randn(3, 8, 3, 3, device=DEVICE))
    (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


@mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)])
@mark.parametrize("stride", [1, 2])
def test_convolutions_over_runs_and_tasks(
    in_dims: Any, stride: int, dot_dtype: torch.dtype, assert_same: BothWays
) -> None:
    batched = [torch.randn(3, 2, 8, 6, 7).to(dot_dtype), torch.randn(3, 5, 8, 3, 3).to(dot_dtype)]
    arguments = [t if dim == 0 else t[0] for t, dim in zip(batched, in_dims, strict=True)]
    over_runs = vmap(convolution(stride), in_dims=in_dims)
    assert_same(over_runs, arguments)
    # In a joint step the tasks of a run share its kernels.
    tasks = torch.randn(*[3] * (in_dims[0] == 0), 4, 2, 8, 6, 7).to(dot_dtype)
    over_tasks = vmap(convolution(stride), in_dims=(0, None))
    assert_same(vmap(over_tasks, in_dims=in_dims), [tasks, arguments[1]])


@mark.parametrize("kernel", [(1, 1), (3, 3), (1, 7), (7, 7)])
@mark.parametrize("stride", [1, 2])
@mark.parametrize("n_colours", [2, 3])
def test_convolutions_with_kernels_of_each_images_own(
    n_colours: int,
    stride: int,
    kernel: tuple[int, int],
    dot_dtype: torch.dtype,
    assert_same: BothWays,
) -> None:
    window = same_window((9, 6), kernel, stride)

    def convolved(x: Tensor, weight: Tensor) -> Tensor:
        return own_kernels(x, weight, window)

    x, weight = torch.randn(2, 3, n_colours, 9, 6), torch.randn(2, 3, 5, n_colours, *kernel)
    both = [x.to(dot_dtype), weight.to(dot_dtype)]
    assert_same(convolved, [t[0] for t in both])
    # As in a joint step: every task has its own images, and so their kernels are its own.
    assert_same(vmap(convolved), both)


@mark.parametrize("by", [1, 2, 3, 7, 105, 2809, 11025, 65_536, 2**30 + 1, 2**31 - 1])
def test_division_is_a_product(by: int) -> None:
    from allotment._ops._kernels._common import divisor

    same, factor, shift = divisor(by)
    assert same == by and -(2**31) <= factor < 2**31
    near = [k * by + offset for k in (1, 2, 2**30 // by) for offset in (-1, 0, 1)]
    for number in (0, 2**31 - 1, *(number for number in near if number < 2**31)):
        assert (2 * number * (factor % 2**32) >> 32) >> shift == number // by
