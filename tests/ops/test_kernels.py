"""Kernels for norms, mixing and pools: the numbers and the gradients of the plain operations."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from pytest import mark, param
from torch import Tensor
from torch.func import vmap

from allotment._ops import mix, norm_relu
from allotment._ops._available import can_fuse
from allotment.paper.networks import SameAvgPool2d, SameMaxPool2d
from tests.ops.both_ways import DEVICE, BothWays, Operation, needs_kernels

pytestmark = needs_kernels


def normed(x: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor) -> Tensor:
    return norm_relu(x, bias, scale, shift, 4, 1e-6)


# A group of a small image is one program's; a large image is cut into tiles.
SMALL = {
    "odd": (3, 12, 5, 7),
    "one pixel": (1, 8, 1, 1),
    "even": (2, 48, 14, 14),
    "many channels": (2, 256, 1, 1),
}
LARGE = {"large and odd": (2, 12, 75, 61), "large": (1, 8, 105, 105)}


def away_from_the_kink(operation: Operation, arguments: Sequence[Any]) -> Operation:
    """Returns an operation that leaves out the pixels for which ReLU may go either way."""
    x, bias, scale, shift = arguments
    mask = operation(x, bias, scale, shift) + operation(x, bias, -scale, -shift) > 1e-3
    return lambda *own: operation(*own) * mask.to(own[0].device)


def norm_arguments(shape: Sequence[int], dtype: torch.dtype) -> list[Tensor]:
    """Returns images whose mean is not zero, and parameters."""
    rows = (*shape[:-4], shape[-3])
    scale, shift = torch.rand(rows) + 0.5, torch.randn(rows)
    return [(2 * torch.randn(*shape) + 1).to(dtype), torch.randn(rows), scale, shift]


@mark.parametrize("shape", [param(shape, id=name) for name, shape in {**SMALL, **LARGE}.items()])
@mark.parametrize("has_bias", [True, False])
def test_norm_relu(
    shape: tuple[int, ...], has_bias: bool, dtype: torch.dtype, assert_same: BothWays
) -> None:
    x, bias, scale, shift = norm_arguments(shape, dtype)
    arguments = [x, bias if has_bias else None, scale, shift]
    assert_same(away_from_the_kink(normed, arguments), arguments)


@mark.parametrize("size", [(5, 7), (75, 61)], ids=["small", "large"])
def test_norm_relu_takes_rows_where_they_lie(
    size: tuple[int, int], dtype: torch.dtype, assert_same: BothWays
) -> None:
    x, bias, scale, shift = norm_arguments((3, 2, 8, *size), dtype)
    others = torch.full((3, 5), 9.0)  # of another layer
    tables = [torch.cat([bias, others], 1), torch.cat([others[:, :3], scale, others], 1), shift.T]

    def over_runs(x: Tensor, biases: Tensor, scales: Tensor, shifts: Tensor) -> Tensor:
        y: Tensor = vmap(normed)(x, biases[:, :8], scales[:, 3:11], shifts.T)
        return y

    arguments = [x, *tables]
    assert_same(away_from_the_kink(over_runs, arguments), arguments)


def test_norm_relu_of_no_images(choose: Callable[[bool], None]) -> None:
    choose(True)
    x, *rows = [t.to(DEVICE).requires_grad_() for t in norm_arguments((0, 8, 4, 4), torch.float32)]
    gradients = torch.autograd.grad(normed(x, *rows).sum(), rows)
    assert all(torch.equal(found, torch.zeros_like(found)) for found in gradients)


def test_small_and_large_images_have_kernels_of_their_own() -> None:
    from allotment._ops._kernels._norm import is_small

    assert all(is_small(torch.empty(shape), 4) for shape in SMALL.values())
    assert not any(is_small(torch.empty(shape), 4) for shape in LARGE.values())


@mark.parametrize("size", [(5, 7), (75, 61)], ids=["small", "large"])
@mark.parametrize("in_dims", [(0, 0, 0, 0), (0, None, None, None), (None, 0, 0, 0)])
def test_norm_relu_over_runs(
    size: tuple[int, int], in_dims: Any, dtype: torch.dtype, assert_same: BothWays
) -> None:
    batched = norm_arguments((3, 2, 8, *size), dtype)
    arguments = [t if dim == 0 else t[0] for t, dim in zip(batched, in_dims, strict=True)]
    assert_same(away_from_the_kink(vmap(normed, in_dims=in_dims), arguments), arguments)


def mixed(weights: Tensor, *groups: Tensor) -> Tensor:
    return mix(weights, groups)


@mark.parametrize(
    ("n_groups", "group_size"), [(1, 1), (3, 1), (7, 1), (8, 1), (2, 4), (1, 16), (2, 3)]
)
@mark.parametrize("size", [(1, 1), (9, 7), (40, 33)], ids=["one pixel", "odd", "several tiles"])
@mark.parametrize("examples", [(), (2,)], ids=["one row", "by example"])
def test_mix(
    n_groups: int,
    group_size: int,
    size: tuple[int, int],
    examples: tuple[int, ...],
    dtype: torch.dtype,
    assert_same: BothWays,
) -> None:
    groups = [torch.randn(group_size, 2, 6, *size).to(dtype) for _ in range(n_groups)]
    assert_same(mixed, [torch.rand(*examples, n_groups * group_size), *groups])


@mark.parametrize("sizes", [(3, 1), (1,) * 9], ids=["unequal groups", "too many groups"])
def test_mix_without_a_kernel_for_the_groups(
    sizes: tuple[int, ...], dtype: torch.dtype, assert_same: BothWays
) -> None:
    groups = [torch.randn(size, 2, 8, 5, 5).to(dtype) for size in sizes]
    assert_same(mixed, [torch.rand(sum(sizes)), *groups])


@mark.parametrize(("n_groups", "group_size"), [(3, 1), (2, 3)])
@mark.parametrize("has_own_outputs", [True, False])
@mark.parametrize("examples", [(), (2,)], ids=["one row", "by example"])
def test_mix_over_runs(
    n_groups: int,
    group_size: int,
    has_own_outputs: bool,
    examples: tuple[int, ...],
    dtype: torch.dtype,
    assert_same: BothWays,
) -> None:
    runs = (3,) if has_own_outputs else ()
    groups = [torch.randn(*runs, group_size, 2, 8, 6, 5).to(dtype) for _ in range(n_groups)]
    in_dims = (0, *[0 if has_own_outputs else None] * n_groups)
    weights = torch.rand(3, *examples, n_groups * group_size)
    assert_same(vmap(mixed, in_dims=in_dims), [weights, *groups])


@mark.parametrize("pool", [SameMaxPool2d, SameAvgPool2d])
@mark.parametrize("stride", [1, 2])
@mark.parametrize("size", [(1, 1), (7, 7), (14, 14), (9, 6), (4, 13)])
def test_pools(
    pool: type[SameMaxPool2d | SameAvgPool2d],
    stride: int,
    size: tuple[int, int],
    dtype: torch.dtype,
    assert_same: BothWays,
) -> None:
    assert_same(pool(stride), [distinct(2, 6, *size).to(dtype)])
    assert_same(vmap(pool(stride)), [distinct(2, 2, 6, *size).to(dtype)])


def distinct(*shape: int) -> Tensor:
    """Returns images in which no two pixels of a channel are equal, with 16 bits too."""
    n_pixels = shape[-2] * shape[-1]
    order = torch.rand(*shape[:-2], n_pixels).argsort(dim=-1) + 1.0
    return (order / 4 - 10).view(shape)


@mark.skipif(not torch.cuda.is_available(), reason="the interpreter has no limit, and is slow")
def test_runs_may_have_more_images_together_than_cuda_has_programs_on_a_second_axis(
    assert_same: BothWays,
) -> None:
    runs, n = 3, 30_000
    arguments = norm_arguments((runs, n, 8, 2, 2), torch.float32)
    assert_same(away_from_the_kink(vmap(normed), arguments), arguments)
    assert_same(vmap(mixed), [torch.rand(runs, 2), *torch.randn(2, runs, 1, n, 8, 2, 2)])
    for pool in (SameMaxPool2d, SameAvgPool2d):
        assert_same(vmap(pool(1)), [distinct(runs, n, 8, 2, 2)])


@mark.skipif(not torch.cuda.is_available(), reason="the choice is between a GPU's two ways")
def test_a_gpu_fuses_images_of_many_channels_in_the_types_that_the_kernels_know() -> None:
    def image(n_channels: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(2, n_channels, 4, 4, dtype=dtype, device="cuda")

    assert can_fuse(image(8)) and can_fuse(image(256)) and can_fuse(image(8, torch.bfloat16))
    assert not can_fuse(image(7)) and not can_fuse(image(257))
    assert not can_fuse(image(8, torch.float64)) and not can_fuse(image(8)[0])
