"""Group normalisation and ReLU in Triton: of small images here, of others by `_large_norm`.

A program has a few groups of channels and holds its pixels in registers, so that images are read
once and written once. Images lie in memory as ``[N, P, C]``: P pixels of C channels. A few groups
rather than one, since memory is read in pieces that small groups would use a part of. How many
channels a program has is known to the compiler, which then reads several at once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import _large_norm
from ._common import add_up, channels_last, part_and_image, read_row, rows_of

MOST_NUMBERS = 16_384  # of a program, padded to powers of two
MOST_CHANNELS = 16  # of a program, if its groups are smaller


@triton.jit
def _part(n_pixels, n_channels, N_OWN: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr):
    """Returns the channels of this program, the places of its numbers, and which are real.

    Places count from the beginning of the image, where they need 32 bits only.
    """
    part, n = part_and_image(n_channels // N_OWN)
    inner = tl.arange(0, BLOCK_C)
    channels = part * N_OWN + inner
    pixels = tl.arange(0, BLOCK_P)
    inside = (pixels < n_pixels)[:, None] & (inner < N_OWN)[None, :]
    places = pixels[:, None] * n_channels + channels[None, :]
    return n, n.to(tl.int64) * n_pixels * n_channels, channels, inner < N_OWN, places, inside


@triton.jit
def _mean(sums, n_pixels, group_size, ONE_GROUP: tl.constexpr, BLOCK_C: tl.constexpr):
    """Returns for each channel the mean of its group, given the channels' sums over pixels."""
    if ONE_GROUP:  # and then it may be large, too large for the table below
        return tl.zeros([BLOCK_C], tl.float32) + tl.sum(sums) / (n_pixels * group_size)
    groups = tl.arange(0, BLOCK_C) // group_size
    together = groups[:, None] == groups[None, :]
    return tl.sum(tl.where(together, sums[None, :], 0.0), axis=1) / (n_pixels * group_size)


@triton.jit
def _forward(
    x, biases, scales, shifts, y, statistics, bias_stride, scale_stride, shift_stride, per_row,
    n_pixels, n_channels, group_size, epsilon, N_OWN: tl.constexpr,
    HAS_BIAS: tl.constexpr, ONE_GROUP: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Writes some groups of one image, and their statistics."""
    n, start, channels, known, places, inside = _part(n_pixels, n_channels, N_OWN, BLOCK_P, BLOCK_C)
    row = n // per_row
    values = tl.load(x + start + places, mask=inside, other=0.0).to(tl.float32)
    values += read_row(biases, row, bias_stride, channels, known, HAS_BIAS)[None, :]
    sums = tl.sum(tl.where(inside, values, 0.0), axis=0)
    mean = _mean(sums, n_pixels, group_size, ONE_GROUP, BLOCK_C)
    values = tl.where(inside, values - mean[None, :], 0.0)
    squares = tl.sum(values * values, axis=0)
    inverse = tl.rsqrt(_mean(squares, n_pixels, group_size, ONE_GROUP, BLOCK_C) + epsilon)
    scale = read_row(scales, row, scale_stride, channels, known, True) * inverse
    shift = read_row(shifts, row, shift_stride, channels, known, True)
    result = tl.maximum(values * scale[None, :] + shift[None, :], 0.0)
    tl.store(y + start + places, result.to(y.dtype.element_ty), mask=inside)
    place = statistics + n * 3 * n_channels + channels
    tl.store(place, mean, mask=known)
    tl.store(place + n_channels, inverse, mask=known)


@triton.jit
def _backward(
    dy, x, biases, scales, shifts, statistics, dx, shares, bias_stride, scale_stride, shift_stride,
    per_row, n_pixels, n_channels, group_size, N_OWN: tl.constexpr,
    HAS_BIAS: tl.constexpr, ONE_GROUP: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Writes the gradient of some groups of one image, and its share of the parameters'."""
    n, start, channels, known, places, inside = _part(n_pixels, n_channels, N_OWN, BLOCK_P, BLOCK_C)
    row = n // per_row
    scale = read_row(scales, row, scale_stride, channels, known, True)
    shift = read_row(shifts, row, shift_stride, channels, known, True)
    mean = tl.load(statistics + n * 3 * n_channels + channels, mask=known, other=0.0)
    inverse = tl.load(statistics + (n * 3 + 1) * n_channels + channels, mask=known, other=0.0)
    values = tl.load(x + start + places, mask=inside, other=0.0).to(tl.float32)
    values += read_row(biases, row, bias_stride, channels, known, HAS_BIAS)[None, :]
    normal = tl.where(inside, (values - mean[None, :]) * inverse[None, :], 0.0)
    derivatives = tl.load(dy + start + places, mask=inside, other=0.0).to(tl.float32)
    derivatives = tl.where(normal * scale[None, :] + shift[None, :] > 0.0, derivatives, 0.0)
    sums, products = tl.sum(derivatives, axis=0), tl.sum(derivatives * normal, axis=0)
    level = _mean(sums * scale, n_pixels, group_size, ONE_GROUP, BLOCK_C)
    tilt = _mean(products * scale, n_pixels, group_size, ONE_GROUP, BLOCK_C)
    derivatives = (
        derivatives * scale[None, :] - level[None, :] - normal * tilt[None, :]
    ) * inverse[None, :]
    derivatives = tl.where(inside, derivatives, 0.0)
    tl.store(dx + start + places, derivatives.to(dx.dtype.element_ty), mask=inside)
    place = shares + n * 3 * n_channels + channels
    tl.store(place, tl.sum(derivatives, axis=0), mask=known)
    tl.store(place + n_channels, products, mask=known)
    tl.store(place + 2 * n_channels, sums, mask=known)


def _own_channels(x: Tensor, n_groups: int) -> int:
    """Returns how many channels a program has: whole groups of them, at least one."""
    group_size = x.shape[1] // n_groups
    pixels = triton.next_power_of_2(x.shape[2] * x.shape[3])
    most = min(MOST_CHANNELS, MOST_NUMBERS // pixels)
    fitting = [k for k in range(1, n_groups + 1) if not n_groups % k and k * group_size <= most]
    return max(fitting, default=1) * group_size


def _blocks(x: Tensor, n_own: int) -> tuple[int, int, int]:
    """Returns the padded number of pixels and of a program's channels, and how many warps."""
    pixels = triton.next_power_of_2(x.shape[2] * x.shape[3])
    channels = triton.next_power_of_2(n_own)
    return pixels, channels, max(1, min(16, pixels * channels // 512))


def is_small(x: Tensor, n_groups: int) -> bool:
    """Tells whether a program can hold a group of an image."""
    pixels, channels, _ = _blocks(x, x.shape[1] // n_groups)
    return pixels * channels <= MOST_NUMBERS


def forward(
    x: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor, n_groups: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Returns the output, and statistics ``[N, 3, C]`` for the backward pass."""
    n, n_channels, height, width = x.shape
    n_own, group_size = _own_channels(x, n_groups), n_channels // n_groups
    *blocks, n_warps = _blocks(x, n_own)
    y = torch.empty_like(x)
    statistics = x.new_empty(n, 3, n_channels, dtype=torch.float32)
    tables, strides = rows_of(bias, scale, shift)
    _forward[(n_channels // n_own * n,)](
        x, *tables, y, statistics, *strides, n // len(scale), height * width, n_channels,
        group_size, epsilon, n_own, bias is not None, n_own == group_size, *blocks,
        num_warps=n_warps,
    )  # fmt: skip
    return y, statistics


def backward(
    dy: Tensor,
    x: Tensor,
    bias: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    statistics: Tensor,
    n_groups: int,
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of the images and each image's share of the parameters'."""
    n, n_channels, height, width = x.shape
    n_own, group_size = _own_channels(x, n_groups), n_channels // n_groups
    *blocks, n_warps = _blocks(x, n_own)
    dx, shares = torch.empty_like(x), torch.empty_like(statistics)
    tables, strides = rows_of(bias, scale, shift)
    _backward[(n_channels // n_own * n,)](
        dy, x, *tables, statistics, dx, shares, *strides, n // len(scale), height * width,
        n_channels, group_size, n_own, bias is not None, n_own == group_size, *blocks,
        num_warps=n_warps,
    )  # fmt: skip
    return dx, shares


def normalise(
    x: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor, n_groups: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Returns the output, and statistics ``[N, 3, C]`` for the backward pass."""
    own = forward if is_small(x, n_groups) else _large_norm.forward
    return own(channels_last(x), bias, scale, shift, n_groups, epsilon)


def normalise_backward(
    dy: Tensor,
    x: Tensor,
    bias: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    statistics: Tensor,
    n_groups: int,
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of the images and of bias, scale and shift, ``[K, 3, C]``."""
    own = backward if is_small(x, n_groups) else _large_norm.backward
    dx, shares = own(channels_last(dy), channels_last(x), bias, scale, shift, statistics, n_groups)
    return dx, add_up(shares.view(len(scale), -1, *shares.shape[1:]))
