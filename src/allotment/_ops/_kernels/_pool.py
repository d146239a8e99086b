"""Pools of 3x3 pixels in Triton; the backward pass gathers, so that nothing is added twice."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ._common import channels_last, new_images, part_and_image

PIXELS_AT_ONCE = 32


@triton.jit
def _pool(
    x, y, chosen, height, width, out_height, out_width, stride, top, left, n_channels,
    LARGEST: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Writes some pixels of the output and, for the largest, which of the nine it was."""
    part, n = part_and_image(tl.cdiv(out_height * out_width, BLOCK_P))
    n = n.to(tl.int64)  # places count from the image's beginning, in 32 bits
    x += n * height * width * n_channels
    y += n * out_height * out_width * n_channels
    if LARGEST:
        chosen += n * out_height * out_width * n_channels
    pixels = part * BLOCK_P + tl.arange(0, BLOCK_P)
    channels = tl.arange(0, BLOCK_C)
    row, column = pixels // out_width, pixels % out_width
    is_real = pixels < out_height * out_width
    known = channels < n_channels
    best = tl.full([BLOCK_P, BLOCK_C], float("-inf"), tl.float32)
    which = tl.zeros([BLOCK_P, BLOCK_C], tl.int8)
    total = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    count = tl.zeros([BLOCK_P], tl.float32)
    for tap in tl.static_range(9):
        r, c = row * stride - top + tap // 3, column * stride - left + tap % 3
        inside = is_real & (r >= 0) & (r < height) & (c >= 0) & (c < width)
        places = (r * width + c)[:, None] * n_channels + channels[None, :]
        mask = inside[:, None] & known[None, :]
        if LARGEST:
            values = tl.load(x + places, mask=mask, other=float("-inf")).to(tl.float32)
            which = tl.where(values > best, tap, which).to(tl.int8)
            best = tl.maximum(best, values)
        else:
            total += tl.load(x + places, mask=mask, other=0.0).to(tl.float32)
            count += inside.to(tl.float32)
    mask = is_real[:, None] & known[None, :]
    places = pixels[:, None] * n_channels + channels[None, :]
    if LARGEST:
        tl.store(chosen + places, which, mask=mask)
        tl.store(y + places, best.to(y.dtype.element_ty), mask=mask)
    else:
        mean = total / tl.maximum(count, 1.0)[:, None]
        tl.store(y + places, mean.to(y.dtype.element_ty), mask=mask)


@triton.jit
def _pool_backward(
    dy, chosen, dx, height, width, out_height, out_width, stride, top, left, n_channels,
    LARGEST: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Writes some pixels of the input's gradient, from the windows that hold them."""
    part, n = part_and_image(tl.cdiv(height * width, BLOCK_P))
    n = n.to(tl.int64)
    dx += n * height * width * n_channels
    dy += n * out_height * out_width * n_channels
    if LARGEST:
        chosen += n * out_height * out_width * n_channels
    pixels = part * BLOCK_P + tl.arange(0, BLOCK_P)
    channels = tl.arange(0, BLOCK_C)
    row, column = pixels // width, pixels % width
    is_real = pixels < height * width
    known = channels < n_channels
    total = tl.zeros([BLOCK_P, BLOCK_C], tl.float32)
    for tap in tl.static_range(9):
        # The window in which this pixel stands at `tap`, if there is one.
        above, before = row + top - tap // 3, column + left - tap % 3
        r, c = above // stride, before // stride
        exists = is_real & (above >= 0) & (before >= 0) & (r < out_height) & (c < out_width)
        exists = exists & (r * stride == above) & (c * stride == before)
        places = (r * out_width + c)[:, None] * n_channels + channels[None, :]
        mask = exists[:, None] & known[None, :]
        derivatives = tl.load(dy + places, mask=mask, other=0.0).to(tl.float32)
        if LARGEST:
            which = tl.load(chosen + places, mask=mask, other=-1)
            total += tl.where(which == tap, derivatives, 0.0)
        else:
            first_row, first_column = r * stride - top, c * stride - left
            rows = tl.minimum(first_row + 3, height) - tl.maximum(first_row, 0)
            columns = tl.minimum(first_column + 3, width) - tl.maximum(first_column, 0)
            count = tl.maximum(rows * columns, 1).to(tl.float32)
            total += derivatives / count[:, None]
    mask = is_real[:, None] & known[None, :]
    places = pixels[:, None] * n_channels + channels[None, :]
    tl.store(dx + places, total.to(dx.dtype.element_ty), mask=mask)


def pool(
    x: Tensor, stride: int, padding: tuple[int, int], size: tuple[int, int], largest: bool
) -> tuple[Tensor, Tensor]:
    """Returns pooled images and, for the largest, which pixel of each window it was."""
    x = channels_last(x)
    n, n_channels, height, width = x.shape
    y = new_images(x, (n, n_channels, *size))
    chosen = torch.empty_like(y, dtype=torch.int8) if largest else y.new_empty(n, dtype=torch.int8)
    _pool[(triton.cdiv(size[0] * size[1], PIXELS_AT_ONCE) * n,)](
        x, y, chosen, height, width, *size, stride, *padding, n_channels,
        largest, PIXELS_AT_ONCE, triton.next_power_of_2(n_channels),
    )  # fmt: skip
    return y, chosen


def pool_backward(
    dy: Tensor,
    chosen: Tensor,
    shape: torch.Size,
    stride: int,
    padding: tuple[int, int],
    largest: bool,
) -> Tensor:
    """Returns the gradient of the images."""
    dy = channels_last(dy)
    n, n_channels, height, width = shape
    dx = new_images(dy, shape)
    _pool_backward[(triton.cdiv(height * width, PIXELS_AT_ONCE) * n,)](
        dy, chosen, dx, height, width, *dy.shape[2:], stride, *padding, n_channels,
        largest, PIXELS_AT_ONCE, triton.next_power_of_2(n_channels),
    )  # fmt: skip
    return dx
