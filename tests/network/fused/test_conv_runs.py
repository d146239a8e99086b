"""Convolutions of many channels with kernels for each run: the numbers and gradients of torch's."""

from typing import Any

import torch
from pytest import MonkeyPatch, fixture, mark
from torch import Tensor
from torch.func import vmap
from torch.testing import assert_close

from allotment.network._fused import _conv_runs
from allotment.network._same_padding import same_convolution
from tests.network.fused.both_ways import Operation, with_gradients

CHANNELS = 20  # more than the kernels for few take


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


@fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(_conv_runs, "is_on_gpu", lambda x: True)


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
        patched.setattr(_conv_runs, "is_on_gpu", lambda x: False)
        expected = with_gradients(operation, arguments)
    for ours, torchs in zip(found, expected, strict=True):
        assert_close(ours, torchs, rtol=1e-9, atol=1e-9)


@mark.parametrize("stride", [(1, 1), (2, 2), (2, 1)], ids=str)
@mark.parametrize("kernel", [(1, 1), (3, 3), (1, 7)], ids=str)
@mark.parametrize("images", [(3, 6, 7), (3, 1, 1), (0, 6, 7)], ids=str)
@mark.parametrize("biased", [True, False])
def test_one_run(
    stride: tuple[int, int],
    kernel: tuple[int, int],
    images: tuple[int, int, int],
    biased: bool,
    monkeypatch: MonkeyPatch,
) -> None:
    n, *size = images
    x = numbers(n, CHANNELS, *size)
    weight = numbers(5, CHANNELS, *kernel)
    assert_as_torch_has_it(convolution(stride, biased=biased), [x, weight], monkeypatch)


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


@mark.parametrize("learns", [0, 1], ids=["images", "kernels"])
def test_one_side_may_have_no_gradient(learns: int) -> None:
    sides = [numbers(2, 3, CHANNELS, 5, 5), numbers(2, 4, CHANNELS, 3, 3)]
    sides[learns].requires_grad_()
    over_runs = vmap(convolution((1, 1)))
    (found,) = torch.autograd.grad(over_runs(*sides).square().sum(), sides[learns])
    both = [side.detach().requires_grad_() for side in sides]
    expected = torch.autograd.grad(over_runs(*both).square().sum(), both)[learns]
    assert_close(found, expected)


def test_derivatives_of_derivatives() -> None:
    sides = (numbers(2, 2, CHANNELS, 4, 3), numbers(2, 3, CHANNELS, 3, 3))
    learnt = tuple(side.requires_grad_() for side in sides)
    assert torch.autograd.gradgradcheck(vmap(convolution((2, 2))), learnt)


def test_images_and_gradients_keep_the_channels_last() -> None:
    x = numbers(2, 3, 6, 7, CHANNELS).movedim(-1, 2).requires_grad_()
    weight = numbers(2, 5, 3, 3, CHANNELS).movedim(-1, 2).requires_grad_()
    y = vmap(convolution((1, 1)))(x, weight)
    upstream = numbers(2, 3, 6, 7, 5).movedim(-1, 2)
    slopes = torch.autograd.grad(y, (x, weight), upstream)
    for tensor in (y, *slopes):
        assert tensor.movedim(2, -1).is_contiguous()


@mark.parametrize(("type_of_images", "by_run"), [(torch.bfloat16, True), (torch.float32, False)])
def test_under_autocast_only_what_has_its_type_goes_run_by_run(
    type_of_images: torch.dtype, by_run: bool, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device_type: True)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda device_type: torch.bfloat16)
    x, weight = (numbers(2, CHANNELS, 4, 4).to(type_of_images) for _ in range(2))
    y = same_convolution(x.requires_grad_(), weight, None, (1, 1))
    assert ("_Convolution" in type(y.grad_fn).__name__) is by_run
