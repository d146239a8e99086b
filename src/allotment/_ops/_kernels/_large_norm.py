"""Group normalisation and ReLU of large images in Triton, in two kernels.

The first adds up tiles of pixels, the second adds the tiles and normalises. Images lie in memory as
``[N, P, C]``: P pixels of C channels. Sums are added in a fixed order, so the same input gives the
same bits each time; they take few registers, so that much can be on its way from memory at once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ._common import part_and_image, read_row, rows_of

PIXELS_AT_ONCE = 64
MOST_TILES = 64  # of an image
N_PROGRAMS = 1_024  # about so many fill the device


@triton.jit
def _image(x, n, n_pixels, n_channels):
    """Returns where image ``n`` begins; places inside an image then need 32 bits only."""
    return x + n.to(tl.int64) * n_pixels * n_channels


@triton.jit
def _images(x, n, pixels, channels, n_pixels, n_channels):
    """Returns pixels of image ``n`` in float32, and where there are any."""
    inside = (pixels < n_pixels)[:, None] & (channels < n_channels)[None, :]
    places = pixels[:, None] * n_channels + channels[None, :]
    values = tl.load(_image(x, n, n_pixels, n_channels) + places, mask=inside, other=0.0)
    return values.to(tl.float32), inside, places


@triton.jit
def _over_groups(sums, channels, n_channels, group_size):
    """Returns for each channel the sum over its group."""
    own, other = channels[:, None] // group_size, channels[None, :] // group_size
    together = (own == other) & (channels < n_channels)[None, :]
    return tl.sum(tl.where(together, sums[None, :], 0.0), axis=1)


@triton.jit
def _over_own(values, BLOCK_P: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Returns the sum over the pixels that one thread has, ``[BLOCK_R, BLOCK_C]``."""
    return tl.sum(tl.reshape(values, [BLOCK_P // BLOCK_R, BLOCK_R, BLOCK_C]), axis=0)


@triton.jit
def _image_sums(
    x, bias, n, first, last, channels, n_pixels, n_channels,
    BLOCK_P: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Returns the sums and the sums of squares of an image's channels, over some pixels."""
    sums = tl.zeros([BLOCK_R, BLOCK_C], tl.float32)
    squares = tl.zeros([BLOCK_R, BLOCK_C], tl.float32)
    for start in range(first, last, BLOCK_P):
        pixels = start + tl.arange(0, BLOCK_P)
        values, inside, _ = _images(x, n, pixels, channels, n_pixels, n_channels)
        values = tl.where(inside, values + bias[None, :], 0.0)
        sums += _over_own(values, BLOCK_P, BLOCK_R, BLOCK_C)
        squares += _over_own(values * values, BLOCK_P, BLOCK_R, BLOCK_C)
    return tl.sum(sums, axis=0), tl.sum(squares, axis=0)


@triton.jit
def _tile_sums(
    x, biases, partial, bias_stride, per_row, n_pixels, tile, n_channels, HAS_BIAS: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Writes the sums of one tile of pixels of an image."""
    n_tiles = tl.cdiv(n_pixels, tile)
    index, n = part_and_image(n_tiles)
    channels = tl.arange(0, BLOCK_C)
    row, known = n // per_row, channels < n_channels
    bias = read_row(biases, row, bias_stride, channels, known, HAS_BIAS)
    last = tl.minimum((index + 1) * tile, n_pixels)
    sums, squares = _image_sums(
        x, bias, n, index * tile, last, channels, n_pixels, n_channels, BLOCK_P, BLOCK_R, BLOCK_C
    )
    place = partial + (n * n_tiles + index) * 2 * n_channels + channels
    tl.store(place, sums, mask=channels < n_channels)
    tl.store(place + n_channels, squares, mask=channels < n_channels)


@triton.jit
def _add_tiles(
    partial, n, n_tiles, channels, n_channels, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr
):  # fmt: skip
    """Returns the two sums of an image over its tiles."""
    tiles = tl.arange(0, BLOCK_T)
    inside = (tiles < n_tiles)[:, None] & (channels < n_channels)[None, :]
    places = partial + ((n * n_tiles + tiles) * 2)[:, None] * n_channels + channels[None, :]
    first = tl.sum(tl.load(places, mask=inside, other=0.0), axis=0)
    return first, tl.sum(tl.load(places + n_channels, mask=inside, other=0.0), axis=0)


@triton.jit
def _normalise(
    x, biases, scales, shifts, partial, y, statistics, bias_stride, scale_stride, shift_stride,
    per_row, n_pixels, tile, n_channels, group_size, epsilon, HAS_BIAS: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Writes a tile of the output and, once for each image, its statistics."""
    n_tiles = tl.cdiv(n_pixels, tile)
    index, n = part_and_image(n_tiles)
    channels = tl.arange(0, BLOCK_C)
    row, known = n // per_row, channels < n_channels
    bias = read_row(biases, row, bias_stride, channels, known, HAS_BIAS)
    scale = read_row(scales, row, scale_stride, channels, known, True)
    shift = read_row(shifts, row, shift_stride, channels, known, True)
    sums, squares = _add_tiles(partial, n, n_tiles, channels, n_channels, BLOCK_T, BLOCK_C)
    count = n_pixels * group_size
    mean = _over_groups(sums, channels, n_channels, group_size) / count
    square = _over_groups(squares, channels, n_channels, group_size) / count
    inverse = tl.rsqrt(tl.maximum(square - mean * mean, 0.0) + epsilon)
    if index == 0:
        place = statistics + n * 3 * n_channels + channels
        tl.store(place, mean, mask=channels < n_channels)
        tl.store(place + n_channels, inverse, mask=channels < n_channels)
        tl.store(place + 2 * n_channels, sums, mask=channels < n_channels)
    factor = inverse * scale
    offset = shift + (bias - mean) * factor
    for start in range(index * tile, tl.minimum((index + 1) * tile, n_pixels), BLOCK_P):
        pixels = start + tl.arange(0, BLOCK_P)
        values, inside, places = _images(x, n, pixels, channels, n_pixels, n_channels)
        values = tl.maximum(values * factor[None, :] + offset[None, :], 0.0)
        values = values.to(y.dtype.element_ty)
        tl.store(_image(y, n, n_pixels, n_channels) + places, values, mask=inside)


@triton.jit
def _derivatives(
    dy, x, n, pixels, channels, n_pixels, n_channels, bias, scale, shift, mean, inverse
):  # fmt: skip
    """Returns the gradient before ReLU, the normalised images, and their places."""
    values, inside, places = _images(x, n, pixels, channels, n_pixels, n_channels)
    normal = (values + bias[None, :] - mean[None, :]) * inverse[None, :]
    derivatives = tl.load(_image(dy, n, n_pixels, n_channels) + places, mask=inside, other=0.0)
    is_open = (normal * scale[None, :] + shift[None, :] > 0.0) & inside
    return tl.where(is_open, derivatives.to(tl.float32), 0.0), normal, inside, places


@triton.jit
def _slope_sums(
    dy, x, n, first, last, channels, n_pixels, n_channels, bias, scale, shift, mean, inverse,
    BLOCK_P: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Returns the sums of the gradient, and of its product with the normalised images."""
    sums = tl.zeros([BLOCK_R, BLOCK_C], tl.float32)
    products = tl.zeros([BLOCK_R, BLOCK_C], tl.float32)
    for start in range(first, last, BLOCK_P):
        pixels = start + tl.arange(0, BLOCK_P)
        derivatives, normal, _, _ = _derivatives(
            dy, x, n, pixels, channels, n_pixels, n_channels, bias, scale, shift, mean, inverse
        )
        sums += _over_own(derivatives, BLOCK_P, BLOCK_R, BLOCK_C)
        products += _over_own(derivatives * normal, BLOCK_P, BLOCK_R, BLOCK_C)
    return tl.sum(sums, axis=0), tl.sum(products, axis=0)


@triton.jit
def _tile_slope_sums(
    dy, x, biases, scales, shifts, statistics, partial, bias_stride, scale_stride, shift_stride,
    per_row, n_pixels, tile, n_channels,
    HAS_BIAS: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Writes the sums that the backward pass needs of one tile of pixels."""
    n_tiles = tl.cdiv(n_pixels, tile)
    index, n = part_and_image(n_tiles)
    channels = tl.arange(0, BLOCK_C)
    row, known = n // per_row, channels < n_channels
    bias = read_row(biases, row, bias_stride, channels, known, HAS_BIAS)
    scale = read_row(scales, row, scale_stride, channels, known, True)
    shift = read_row(shifts, row, shift_stride, channels, known, True)
    mean = tl.load(statistics + n * 3 * n_channels + channels, mask=known, other=0.0)
    inverse = tl.load(statistics + (n * 3 + 1) * n_channels + channels, mask=known, other=0.0)
    last = tl.minimum((index + 1) * tile, n_pixels)
    sums, products = _slope_sums(
        dy, x, n, index * tile, last, channels, n_pixels, n_channels,
        bias, scale, shift, mean, inverse, BLOCK_P, BLOCK_R, BLOCK_C,
    )  # fmt: skip
    place = partial + (n * n_tiles + index) * 2 * n_channels + channels
    tl.store(place, sums, mask=known)
    tl.store(place + n_channels, products, mask=known)


@triton.jit
def _normalise_backward(
    dy, x, biases, scales, shifts, statistics, partial, dx, derivatives_of_rows,
    bias_stride, scale_stride, shift_stride, per_row, n_pixels, tile, n_channels, group_size,
    HAS_BIAS: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Writes a tile of the input's gradient and, once for each image, the parameters' share."""
    n_tiles = tl.cdiv(n_pixels, tile)
    index, n = part_and_image(n_tiles)
    channels = tl.arange(0, BLOCK_C)
    row, known = n // per_row, channels < n_channels
    bias = read_row(biases, row, bias_stride, channels, known, HAS_BIAS)
    scale = read_row(scales, row, scale_stride, channels, known, True)
    shift = read_row(shifts, row, shift_stride, channels, known, True)
    mean = tl.load(statistics + n * 3 * n_channels + channels, mask=known, other=0.0)
    inverse = tl.load(statistics + (n * 3 + 1) * n_channels + channels, mask=known, other=0.0)
    total = tl.load(statistics + (n * 3 + 2) * n_channels + channels, mask=known, other=0.0)
    sums, products = _add_tiles(partial, n, n_tiles, channels, n_channels, BLOCK_T, BLOCK_C)
    count = n_pixels * group_size
    level = _over_groups(sums * scale, channels, n_channels, group_size) / count
    tilt = _over_groups(products * scale, channels, n_channels, group_size) / count
    if index == 0:
        place = derivatives_of_rows + n * 3 * n_channels + channels
        # The bias moves every pixel, so its gradient is the sum of the input's, known in advance.
        normal_sum = inverse * (total - n_pixels * mean)
        derivative = inverse * (scale * sums - n_pixels * level - tilt * normal_sum)
        tl.store(place, derivative, mask=known)
        tl.store(place + n_channels, products, mask=known)
        tl.store(place + 2 * n_channels, sums, mask=known)
    for start in range(index * tile, tl.minimum((index + 1) * tile, n_pixels), BLOCK_P):
        pixels = start + tl.arange(0, BLOCK_P)
        derivatives, normal, inside, places = _derivatives(
            dy, x, n, pixels, channels, n_pixels, n_channels, bias, scale, shift, mean, inverse
        )
        derivatives = derivatives * scale[None, :] - level[None, :] - normal * tilt[None, :]
        derivatives = (derivatives * inverse[None, :]).to(dx.dtype.element_ty)
        tl.store(_image(dx, n, n_pixels, n_channels) + places, derivatives, mask=inside)


def _tiles(n_images: int, n_pixels: int) -> tuple[int, int]:
    """Returns how many tiles an image has, and how many pixels a tile."""
    wanted = max(1, min(MOST_TILES, N_PROGRAMS // n_images))
    # Whole steps, so that no tile reads pixels of the next.
    tile = PIXELS_AT_ONCE * triton.cdiv(n_pixels, wanted * PIXELS_AT_ONCE)
    return triton.cdiv(n_pixels, tile), tile


def _blocks(n_channels: int) -> tuple[int, int, int]:
    """Returns a program's warps, the pixels they read at once by 8 channels, and its channels."""
    block = triton.next_power_of_2(n_channels)
    n_warps = 4 if block <= 64 else 8
    return n_warps, min(PIXELS_AT_ONCE, 32 * n_warps * 8 // block), block


def forward(
    x: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor, n_groups: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Returns the output, and statistics ``[N, 3, C]`` for the backward pass."""
    n, n_channels, height, width = x.shape
    n_pixels, (n_warps, rows, block) = height * width, _blocks(n_channels)
    n_tiles, tile = _tiles(n, n_pixels)
    y, statistics = torch.empty_like(x), x.new_empty(n, 3, n_channels, dtype=torch.float32)
    partial = x.new_empty(n, n_tiles, 2, n_channels, dtype=torch.float32)
    tables, strides = rows_of(bias, scale, shift)
    per_row, has_bias = n // len(scale), bias is not None
    _tile_sums[(n_tiles * n,)](
        x, tables[0], partial, strides[0], per_row, n_pixels, tile, n_channels,
        has_bias, PIXELS_AT_ONCE, rows, block, num_warps=n_warps,
    )  # fmt: skip
    _normalise[(n_tiles * n,)](
        x, *tables, partial, y, statistics, *strides, per_row, n_pixels, tile, n_channels,
        n_channels // n_groups, epsilon, has_bias, triton.next_power_of_2(n_tiles),
        PIXELS_AT_ONCE, block, num_warps=n_warps,
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
    n_pixels, (n_warps, rows, block) = height * width, _blocks(n_channels)
    n_tiles, tile = _tiles(n, n_pixels)
    dx, shares = torch.empty_like(x), torch.empty_like(statistics)
    partial = statistics.new_empty(n, n_tiles, 2, n_channels)
    tables, strides = rows_of(bias, scale, shift)
    per_row, has_bias = n // len(scale), bias is not None
    _tile_slope_sums[(n_tiles * n,)](
        dy, x, *tables, statistics, partial, *strides, per_row, n_pixels, tile, n_channels,
        has_bias, PIXELS_AT_ONCE, rows, block, num_warps=n_warps,
    )  # fmt: skip
    _normalise_backward[(n_tiles * n,)](
        dy, x, *tables, statistics, partial, dx, shares, *strides, per_row, n_pixels, tile,
        n_channels, n_channels // n_groups, has_bias, triton.next_power_of_2(n_tiles),
        PIXELS_AT_ONCE, block, num_warps=n_warps,
    )  # fmt: skip
    return dx, shares
