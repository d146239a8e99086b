"""Group normalisation and ReLU of small images in Triton: one program for each group of channels.

A program holds its pixels in registers, so that the images are read once and written once.
Images lie in memory as ``[N, P, C]``: P pixels of C channels.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_NUMBERS = 16_384  # of a group in one image, padded to powers of two


@triton.jit
def _group(n_pixels, n_channels, group_size, BLOCK_P: tl.constexpr, BLOCK_G: tl.constexpr):
    """Returns the channels of this program, the places of its numbers, and which are real.

    Places count from the beginning of the image, where they need 32 bits only.
    """
    n, group = tl.program_id(1), tl.program_id(0)
    inner = tl.arange(0, BLOCK_G)
    channels = group * group_size + inner
    pixels = tl.arange(0, BLOCK_P)
    inside = (pixels < n_pixels)[:, None] & (inner < group_size)[None, :]
    places = pixels[:, None] * n_channels + channels[None, :]
    return n, n.to(tl.int64) * n_pixels * n_channels, channels, inner < group_size, places, inside


@triton.jit
def _row(table, row, channels, known, n_channels):
    return tl.load(table + row * n_channels + channels, mask=known, other=0.0).to(tl.float32)


@triton.jit
def _forward(
    x, biases, scales, shifts, y, statistics, per_row, n_pixels, n_channels, group_size, epsilon,
    HAS_BIAS: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_G: tl.constexpr,
):  # fmt: skip
    """Writes one group of one image, and its statistics."""
    n, start, channels, known, places, inside = _group(
        n_pixels, n_channels, group_size, BLOCK_P, BLOCK_G
    )
    row = n // per_row
    values = tl.load(x + start + places, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        values += _row(biases, row, channels, known, n_channels)[None, :]
    count = n_pixels * group_size
    mean = tl.sum(tl.where(inside, values, 0.0)) / count
    values = tl.where(inside, values - mean, 0.0)
    inverse = tl.rsqrt(tl.sum(values * values) / count + epsilon)
    scale = _row(scales, row, channels, known, n_channels) * inverse
    shift = _row(shifts, row, channels, known, n_channels)
    result = tl.maximum(values * scale[None, :] + shift[None, :], 0.0)
    tl.store(y + start + places, result.to(y.dtype.element_ty), mask=inside)
    place = statistics + n * 3 * n_channels + channels
    tl.store(place, tl.zeros([BLOCK_G], tl.float32) + mean, mask=known)
    tl.store(place + n_channels, tl.zeros([BLOCK_G], tl.float32) + inverse, mask=known)


@triton.jit
def _backward(
    dy, x, biases, scales, shifts, statistics, dx, shares, per_row, n_pixels, n_channels,
    group_size, HAS_BIAS: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_G: tl.constexpr,
):  # fmt: skip
    """Writes the gradient of one group of one image, and its share of the parameters'."""
    n, start, channels, known, places, inside = _group(
        n_pixels, n_channels, group_size, BLOCK_P, BLOCK_G
    )
    row = n // per_row
    scale = _row(scales, row, channels, known, n_channels)
    shift = _row(shifts, row, channels, known, n_channels)
    mean = tl.load(statistics + n * 3 * n_channels + channels, mask=known, other=0.0)
    inverse = tl.load(statistics + (n * 3 + 1) * n_channels + channels, mask=known, other=0.0)
    values = tl.load(x + start + places, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        values += _row(biases, row, channels, known, n_channels)[None, :]
    normal = tl.where(inside, (values - mean[None, :]) * inverse[None, :], 0.0)
    slopes = tl.load(dy + start + places, mask=inside, other=0.0).to(tl.float32)
    slopes = tl.where(normal * scale[None, :] + shift[None, :] > 0.0, slopes, 0.0)
    sums, products = tl.sum(slopes, axis=0), tl.sum(slopes * normal, axis=0)
    count = n_pixels * group_size
    level, tilt = tl.sum(sums * scale) / count, tl.sum(products * scale) / count
    slopes = (slopes * scale[None, :] - level - normal * tilt) * inverse[None, :]
    slopes = tl.where(inside, slopes, 0.0)
    tl.store(dx + start + places, slopes.to(dx.dtype.element_ty), mask=inside)
    place = shares + n * 3 * n_channels + channels
    tl.store(place, tl.sum(slopes, axis=0), mask=known)
    tl.store(place + n_channels, products, mask=known)
    tl.store(place + 2 * n_channels, sums, mask=known)


def _blocks(x: Tensor, n_groups: int) -> tuple[int, int, int]:
    """Returns the padded number of pixels and of channels in a group, and how many warps."""
    pixels = triton.next_power_of_2(x.shape[2] * x.shape[3])
    channels = triton.next_power_of_2(x.shape[1] // n_groups)
    return pixels, channels, max(1, min(16, pixels * channels // 512))


def is_small(x: Tensor, n_groups: int) -> bool:
    """Tells whether a program can hold a group of an image."""
    pixels, channels, _ = _blocks(x, n_groups)
    return pixels * channels <= MOST_NUMBERS


def forward(
    x: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor, n_groups: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Returns the output, and statistics ``[N, 3, C]`` for the backward pass."""
    n, n_channels, height, width = x.shape
    pixels, channels, n_warps = _blocks(x, n_groups)
    y = torch.empty_like(x)
    statistics = x.new_empty(n, 3, n_channels, dtype=torch.float32)
    _forward[(n_groups, n)](
        x, bias, scale, shift, y, statistics, n // len(scale), height * width, n_channels,
        n_channels // n_groups, epsilon, bias is not None, pixels, channels, num_warps=n_warps,
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
    pixels, channels, n_warps = _blocks(x, n_groups)
    dx, shares = torch.empty_like(x), torch.empty_like(statistics)
    _backward[(n_groups, n)](
        dy, x, bias, scale, shift, statistics, dx, shares, n // len(scale), height * width,
        n_channels, n_channels // n_groups, bias is not None, pixels, channels, num_warps=n_warps,
    )  # fmt: skip
    return dx, shares
