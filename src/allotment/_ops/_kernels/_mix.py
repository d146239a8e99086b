"""Sums of up to eight groups of outputs in Triton, and their gradients, in one pass each.

A group lies in memory as ``[N, P, G, O]``: P pixels of G outputs with O channels each.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from ._common import add_up, channels_last, new_images, part_and_image

MOST_NUMBERS = 1_024  # at once
MOST_TILES = 64  # of an image


@triton.jit
def _pick(x0, x1, x2, x3, x4, x5, x6, x7, i: tl.constexpr):
    """Returns the i-th of eight pointers."""
    if i == 0:
        return x0
    elif i == 1:
        return x1
    elif i == 2:
        return x2
    elif i == 3:
        return x3
    elif i == 4:
        return x4
    elif i == 5:
        return x5
    elif i == 6:
        return x6
    else:
        return x7


@triton.jit
def _first(inner, n_channels, G: tl.constexpr):
    """Returns where the first output of a group has the numbers ``inner`` of an image."""
    if G == 1:
        return inner
    return (inner // n_channels) * G * n_channels + inner % n_channels


@triton.jit
def _add_weighted(
    x0, x1, x2, x3, x4, x5, x6, x7, weights, y, per_row, size, n_channels,
    N: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes a tile of the sum for one image of ``size`` numbers."""
    index, n = part_and_image(tl.cdiv(size, BLOCK))
    inner = index * BLOCK + tl.arange(0, BLOCK)
    first = _first(inner, n_channels, G)
    start = n.to(tl.int64) * size
    row = weights + (n // per_row) * N * G
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(N):
        x = _pick(x0, x1, x2, x3, x4, x5, x6, x7, i)
        for g in tl.static_range(G):
            spots = first + g * n_channels
            values = tl.load(x + start * G + spots, mask=inner < size, other=0.0).to(tl.float32)
            total += values * tl.load(row + i * G + g).to(tl.float32)
    tl.store(y + start + inner, total.to(y.dtype.element_ty), mask=inner < size)


@triton.jit
def _add_weighted_backward(
    dy, x0, x1, x2, x3, x4, x5, x6, x7, weights, dx, products, per_row, size, n_channels, stride,
    tile, N: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes tiles of one output's gradient in each group, and what they add to its weight's."""
    n_tiles = tl.cdiv(size, tile)
    index, n = part_and_image(n_tiles)
    g = tl.program_id(1)
    first = n.to(tl.int64) * size
    row = weights + (n // per_row) * N * G + g
    own = products + (n * n_tiles + index) * N * G + g
    for i in tl.static_range(N):
        x = _pick(x0, x1, x2, x3, x4, x5, x6, x7, i)
        weight = tl.load(row + i * G).to(tl.float32)
        product = tl.zeros([BLOCK], tl.float32)
        for start in range(index * tile, tl.minimum((index + 1) * tile, size), BLOCK):
            inner = start + tl.arange(0, BLOCK)
            derivative = tl.load(dy + first + inner, mask=inner < size, other=0.0).to(tl.float32)
            spots = _first(inner, n_channels, G) + g * n_channels
            values = tl.load(x + first * G + spots, mask=inner < size, other=0.0).to(tl.float32)
            product += derivative * values
            share = (derivative * weight).to(dx.dtype.element_ty)
            tl.store(dx + i * stride + first * G + spots, share, mask=inner < size)
        tl.store(own + i * G, tl.sum(product, axis=0))


def _laid_out(groups: Sequence[Tensor]) -> list[Tensor]:
    """Returns eight tensors in one memory format, the last repeated."""
    same = [channels_last(group) for group in groups]
    return same + [same[-1]] * (8 - len(same))


def _block(dy: Tensor) -> int:
    """Returns how many numbers a program takes at once: fewer where programs would be few."""
    return MOST_NUMBERS if dy.numel() >= 2**18 else MOST_NUMBERS // 4


def add_weighted(weights: Tensor, groups: Sequence[Tensor]) -> Tensor:
    """Returns the weighted sum of images ``[N, G * O, H, W]``, given weights ``[K, C]``."""
    xs = _laid_out(groups)
    group_size = weights.shape[1] // len(groups)
    n, n_channels, height, width = xs[0].shape
    y = new_images(xs[0], (n, n_channels // group_size, height, width))
    size, block = y[0].numel(), _block(y)
    _add_weighted[(triton.cdiv(size, block) * n,)](
        *xs, weights.contiguous(), y, n // len(weights), size, y.shape[1], len(groups), group_size,
        block,
    )  # fmt: skip
    return y


def add_weighted_backward(
    dy: Tensor, weights: Tensor, groups: Sequence[Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Returns the gradients of the weights and of each group."""
    xs = _laid_out(groups)
    dy = channels_last(dy)
    n_rows, n_weights = weights.shape
    n, n_channels, height, width = xs[0].shape
    size, block = dy[0].numel(), _block(dy)
    tile = block * triton.cdiv(size, block * MOST_TILES)
    n_tiles = triton.cdiv(size, tile)
    dx = dy.new_empty(len(groups), n, height, width, n_channels)
    products = dy.new_empty(n, n_tiles, n_weights, dtype=torch.float32)
    _add_weighted_backward[(n_tiles * n, n_weights // len(groups))](
        dy, *xs, weights.contiguous(), dx, products, n // n_rows, size, dy.shape[1],
        xs[0].numel(), tile, len(groups), n_weights // len(groups), block,
    )  # fmt: skip
    dweights = add_up(products.view(n_rows, -1, n_weights)).to(weights.dtype)
    return dweights, dx.permute(0, 1, 4, 2, 3).unbind(0)
