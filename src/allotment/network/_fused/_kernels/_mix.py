"""The weighted sum of up to eight tensors in Triton, and its gradients, in one pass each."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1_024
MOST_TILES = 64  # of an image


@triton.jit
def _add_weighted(
    x0, x1, x2, x3, x4, x5, x6, x7, weights, y, per_row, size, N: tl.constexpr, BLOCK: tl.constexpr
):
    """Writes a tile of the sum for one image of ``size`` numbers."""
    n = tl.program_id(1)
    inner = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    places = n.to(tl.int64) * size + inner
    row = weights + (n // per_row) * N
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(N):
        x = _pick(x0, x1, x2, x3, x4, x5, x6, x7, i)
        values = tl.load(x + places, mask=inner < size, other=0.0).to(tl.float32)
        total += values * tl.load(row + i).to(tl.float32)
    tl.store(y + places, total.to(y.dtype.element_ty), mask=inner < size)


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
def _add_weighted_backward(
    dy, x0, x1, x2, x3, x4, x5, x6, x7, weights, dx, products, per_row, size, stride, tile,
    N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes a tile of each output's gradient, and the tile's share of the weights' gradients."""
    index, n = tl.program_id(0), tl.program_id(1)
    row = weights + (n // per_row) * N
    for i in tl.static_range(N):
        x = _pick(x0, x1, x2, x3, x4, x5, x6, x7, i)
        weight = tl.load(row + i).to(tl.float32)
        product = tl.zeros([BLOCK], tl.float32)
        for start in range(index * tile, tl.minimum((index + 1) * tile, size), BLOCK):
            inner = start + tl.arange(0, BLOCK)
            places = n.to(tl.int64) * size + inner
            slope = tl.load(dy + places, mask=inner < size, other=0.0).to(tl.float32)
            values = tl.load(x + places, mask=inner < size, other=0.0).to(tl.float32)
            product += slope * values
            tl.store(
                dx + i * stride + places,
                (slope * weight).to(dx.dtype.element_ty),
                mask=inner < size,
            )
        tl.store(products + (n * tl.num_programs(0) + index) * N + i, tl.sum(product, axis=0))


def _laid_out(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Returns eight tensors in one memory format, the last repeated."""
    same = [output.contiguous(memory_format=torch.channels_last) for output in outputs]
    return same + [same[-1]] * (8 - len(same))


def add_weighted(weights: Tensor, outputs: Sequence[Tensor]) -> Tensor:
    """Returns the weighted sum of images ``[N, C, H, W]``, given weights ``[K, C]``."""
    xs = _laid_out(outputs)
    y = torch.empty_like(xs[0])
    n, size = len(y), y[0].numel()
    _add_weighted[(triton.cdiv(size, BLOCK), n)](
        *xs, weights.contiguous(), y, n // len(weights), size, len(outputs), BLOCK
    )
    return y


def add_weighted_backward(
    dy: Tensor, weights: Tensor, outputs: Sequence[Tensor]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Returns the gradients of the weights and of each output."""
    xs = _laid_out(outputs)
    dy = dy.contiguous(memory_format=torch.channels_last)
    n, n_channels, height, width = dy.shape
    size = dy[0].numel()
    n_tiles = min(MOST_TILES, triton.cdiv(size, BLOCK))
    tile = BLOCK * triton.cdiv(size, BLOCK * n_tiles)
    n_outputs, n_rows = len(outputs), len(weights)
    dx = dy.new_empty(n_outputs, n, height, width, n_channels)
    products = dy.new_empty(n, n_tiles, n_outputs, dtype=torch.float32)
    _add_weighted_backward[(n_tiles, n)](
        dy, *xs, weights.contiguous(), dx, products, n // n_rows, size, dy.numel(), tile,
        n_outputs, BLOCK,
    )  # fmt: skip
    dweights = products.view(n_rows, -1, n_outputs).sum(dim=1).to(weights.dtype)
    return dweights, dx.permute(0, 1, 4, 2, 3).unbind(0)
