"""Convolutions of few channels in Triton: products with patches that are never laid out.

Images lie in memory as ``[N, H, W, C]``. Each row of kernels, ``[O, h, w, C]`` in memory, serves
the next ``N / K`` images, so that the runs of a program are one launch. Sums are added in a fixed
order, so the same input gives the same bits each time.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .._conv import Window
from ._common import add_up, channels_last, divisor, new_images, places_of

PIXELS_AT_ONCE = 64
MOST_OUTPUTS_AT_ONCE = 64
NUMBERS_AT_ONCE = 32  # of a patch
PIXELS_OF_A_SHARE = 256  # of a kernel's gradient, which is added up in shares
MOST_SHARES = 64
LEAST = 16  # numbers on a side of a product
WIDE_FROM = 2**31  # numbers of one row's images; places among fewer need 32 bits only

# Of many tried on an H200. What suits large products does not suit these: the gradients took twice
# as long with four warps and three stages.
SLOPES_OF_IMAGES = {"num_warps": 4, "num_stages": 1}
SLOPES_OF_KERNELS = {"num_warps": 2, "num_stages": 3}

# Triton compiles anew for sizes that 16 divides, and for 1; here no load gains from knowing that.
SIZES = (
    *("per_row", "height", "width", "new_height", "new_width", "top", "left", "share"),
    *("area", "area_factor", "area_shift", "side", "side_factor", "side_shift"),
)


@triton.jit
def _wide(x, WIDE: tl.constexpr):
    """Returns numbers from which places are counted, in 64 bits where 32 are too few."""
    if WIDE:
        return x.to(tl.int64)
    else:  # Triton compiles what follows a return, unless it is the other branch
        return x


@triton.jit
def _patches(
    x, pixels, numbers, n_pixels, height, width, area, area_factor, area_shift, side, side_factor,
    side_shift, top, left,
    STRIDE: tl.constexpr, C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Returns numbers of the patches under output pixels, ``[P, K]``, with 0 around the images."""
    image, new_y, new_x = places_of(
        pixels, area, area_factor, area_shift, side, side_factor, side_shift
    )
    tap = numbers // C
    ys = (new_y * STRIDE - top)[:, None] + (tap // KW)[None, :]
    xs = (new_x * STRIDE - left)[:, None] + (tap % KW)[None, :]
    # Before an image is far behind it, where a number has no sign.
    inside = (ys.to(tl.uint32, bitcast=True) < height) & (xs.to(tl.uint32, bitcast=True) < width)
    inside &= (pixels < n_pixels)[:, None] & (tap < KH * KW)[None, :]
    first = _wide(image, WIDE)[:, None] * height
    places = ((first + ys) * width + xs) * C + (numbers % C)[None, :]
    return tl.load(x + places, mask=inside, other=0.0)


@triton.jit(do_not_specialize=SIZES)
def _convolve(
    x, weights, y, weights_stride, per_row, height, width, area, area_factor, area_shift, side,
    side_factor, side_shift, top, left, n_outputs,
    STRIDE: tl.constexpr, C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Writes a tile of output pixels of one row's images."""
    row = tl.program_id(1).to(tl.int64)
    n_pixels = per_row * area
    pixels = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    outputs = tl.program_id(2) * BLOCK_O + tl.arange(0, BLOCK_O)
    own_x = x + row * per_row * height * width * C
    own_weights = weights + row * weights_stride
    total = tl.zeros([BLOCK_P, BLOCK_O], tl.float32)
    for start in range(0, KH * KW * C, BLOCK_K):
        numbers = start + tl.arange(0, BLOCK_K)
        patches = _patches(
            own_x, pixels, numbers, n_pixels, height, width, area, area_factor, area_shift, side,
            side_factor, side_shift, top, left, STRIDE, C, KH, KW, WIDE,
        )  # fmt: skip
        known = (numbers < KH * KW * C)[:, None] & (outputs < n_outputs)[None, :]
        places = outputs[None, :] * (KH * KW * C) + numbers[:, None]
        kernels = tl.load(own_weights + places, mask=known, other=0.0)
        total = tl.dot(patches, kernels, total, input_precision=PRECISION)
    known = (pixels < n_pixels)[:, None] & (outputs < n_outputs)[None, :]
    places = _wide(pixels, WIDE)[:, None] * n_outputs + outputs[None, :]
    own_y = y + row * n_pixels * n_outputs
    tl.store(own_y + places, total.to(y.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=SIZES)
def _image_gradients(
    dy, weights, dx, weights_stride, per_row, height, width, new_height, new_width, area,
    area_factor, area_shift, side, side_factor, side_shift, top, left, n_outputs,
    STRIDE: tl.constexpr, C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Writes the gradient of a tile of squares of ``STRIDE`` by ``STRIDE`` pixels.

    The pixels of a square meet the same outputs, each under other places of the kernel: together
    they are the columns of one product, and an output is read once for all of them.
    """
    row = tl.program_id(1).to(tl.int64)
    squares = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    image, square_y, square_x = places_of(
        squares, area, area_factor, area_shift, side, side_factor, side_shift
    )
    wide_image = _wide(image, WIDE)
    inner = tl.arange(0, BLOCK_N)
    channels, phase = inner % C, inner // C
    inner_y, inner_x = phase // STRIDE, phase % STRIDE
    outputs = tl.arange(0, BLOCK_O)
    own_dy = dy + row * per_row * new_height * new_width * n_outputs
    own_weights = weights + row * weights_stride
    total = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    for back_y in range((KH + STRIDE - 1) // STRIDE):
        for back_x in range((KW + STRIDE - 1) // STRIDE):
            new_y, new_x = square_y - back_y, square_x - back_x
            met = (image < per_row) & (new_y >= 0) & (new_y < new_height)
            met &= (new_x >= 0) & (new_x < new_width)
            spots = ((wide_image * new_height + new_y) * new_width + new_x) * n_outputs
            kernel_y, kernel_x = inner_y + STRIDE * back_y, inner_x + STRIDE * back_x
            is_place = (phase < STRIDE * STRIDE) & (kernel_y < KH) & (kernel_x < KW)
            taps = (kernel_y * KW + kernel_x) * C + channels
            for start in range(0, n_outputs, BLOCK_O):
                some = start + outputs
                known = met[:, None] & (some < n_outputs)[None, :]
                derivatives = tl.load(
                    own_dy + spots[:, None] + some[None, :], mask=known, other=0.0
                )
                known = (some < n_outputs)[:, None] & is_place[None, :]
                places = some[:, None] * (KH * KW * C) + taps[None, :]
                kernels = tl.load(own_weights + places, mask=known, other=0.0)
                total = tl.dot(derivatives, kernels, total, input_precision=PRECISION)
    ys = (square_y * STRIDE - top)[:, None] + inner_y[None, :]
    xs = (square_x * STRIDE - left)[:, None] + inner_x[None, :]
    known = (image < per_row)[:, None] & (phase < STRIDE * STRIDE)[None, :]
    known &= (ys >= 0) & (ys < height) & (xs >= 0) & (xs < width)
    places = ((wide_image[:, None] * height + ys) * width + xs) * C + channels[None, :]
    own_dx = dx + row * per_row * height * width * C
    tl.store(own_dx + places, total.to(dx.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=SIZES)
def _kernel_shares(
    x, dy, shares, per_row, height, width, area, area_factor, area_shift, side, side_factor,
    side_shift, top, left, n_outputs, share,
    STRIDE: tl.constexpr, C: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Writes what some output pixels of one row's images add to the gradient of its kernels."""
    row = tl.program_id(1).to(tl.int64)
    n_parts = tl.cdiv(KH * KW * C, BLOCK_K)
    numbers = (tl.program_id(2) % n_parts) * BLOCK_K + tl.arange(0, BLOCK_K)
    outputs = (tl.program_id(2) // n_parts) * BLOCK_O + tl.arange(0, BLOCK_O)
    n_pixels = per_row * area
    own_x = x + row * per_row * height * width * C
    own_dy = dy + row * n_pixels * n_outputs
    total = tl.zeros([BLOCK_O, BLOCK_K], tl.float32)
    first = tl.program_id(0) * share
    for start in range(first, tl.minimum(first + share, n_pixels), BLOCK_P):
        pixels = start + tl.arange(0, BLOCK_P)
        patches = _patches(
            own_x, pixels, numbers, n_pixels, height, width, area, area_factor, area_shift, side,
            side_factor, side_shift, top, left, STRIDE, C, KH, KW, WIDE,
        )  # fmt: skip
        known = (outputs < n_outputs)[:, None] & (pixels < n_pixels)[None, :]
        places = _wide(pixels, WIDE)[None, :] * n_outputs + outputs[:, None]
        derivatives = tl.load(own_dy + places, mask=known, other=0.0)
        total = tl.dot(derivatives, patches, total, input_precision=PRECISION)
    own = shares + (row * tl.num_programs(0) + tl.program_id(0)) * n_outputs * (KH * KW * C)
    known = (outputs < n_outputs)[:, None] & (numbers < KH * KW * C)[None, :]
    tl.store(own + outputs[:, None] * (KH * KW * C) + numbers[None, :], total, mask=known)


def _rows(weight: Tensor) -> Tensor:
    """Returns kernels ``[K, O, C, h, w]`` as rows of numbers, without a copy if they lie so."""
    rows = weight.permute(0, 1, 3, 4, 2).flatten(1)
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _precision() -> str:
    # Not `allow_tf32`, which raises for those who use the newer of torch's two ways to say it.
    convolutions: Any = torch.backends.cudnn.conv  # type: ignore[attr-defined]
    return "tf32" if convolutions.fp32_precision == "tf32" else "ieee"


def _is_wide(*images: Tensor) -> bool:
    return max(image.numel() for image in images) >= WIDE_FROM


def _at_once(n: int) -> int:
    padded: int = triton.next_power_of_2(n)
    return max(LEAST, min(MOST_OUTPUTS_AT_ONCE, padded))


def convolve(x: Tensor, weight: Tensor, window: Window) -> Tensor:
    """Returns images ``[N, C, H, W]`` convolved with kernels ``[K, O, C, h, w]``."""
    n, n_channels, height, width = x.shape
    n_rows, n_outputs, _, *kernel = weight.shape
    rows, block_o = _rows(weight), _at_once(n_outputs)
    y = new_images(x, (n, n_outputs, window.height, window.width))
    n_tiles = triton.cdiv(n // n_rows * window.height * window.width, PIXELS_AT_ONCE)
    _convolve[(n_tiles, n_rows, triton.cdiv(n_outputs, block_o))](
        channels_last(x), rows, y, rows.stride(0), n // n_rows, height, width,
        *divisor(window.height * window.width), *divisor(window.width), window.top, window.left,
        n_outputs, window.stride, n_channels, *kernel,
        PIXELS_AT_ONCE, block_o, NUMBERS_AT_ONCE, _precision(), _is_wide(x, y),
    )  # fmt: skip
    return y


def image_gradients(dy: Tensor, weight: Tensor, shape: torch.Size, window: Window) -> Tensor:
    """Returns the gradient of the images, of ``shape``."""
    n, n_channels, height, width = shape
    n_rows, n_outputs, _, *kernel = weight.shape
    rows = _rows(weight)
    dx = new_images(dy, shape)
    # Squares of pixels that meet the same outputs, counted from the first that any kernel meets.
    n_ys = (height - 1 + window.top) // window.stride + 1
    n_xs = (width - 1 + window.left) // window.stride + 1
    block_n = max(LEAST, triton.next_power_of_2(window.stride**2 * n_channels))
    _image_gradients[(triton.cdiv(n // n_rows * n_ys * n_xs, PIXELS_AT_ONCE), n_rows)](
        channels_last(dy), rows, dx, rows.stride(0), n // n_rows, height, width, window.height,
        window.width, *divisor(n_ys * n_xs), *divisor(n_xs), window.top, window.left, n_outputs,
        window.stride, n_channels, *kernel, PIXELS_AT_ONCE, _at_once(n_outputs), block_n,
        _precision(), _is_wide(dx, dy), **SLOPES_OF_IMAGES,
    )  # fmt: skip
    return dx


def kernel_gradients(dy: Tensor, x: Tensor, weight: Tensor, window: Window) -> Tensor:
    """Returns the gradient of the kernels."""
    n, n_channels, height, width = x.shape
    n_rows, n_outputs, _, *kernel = weight.shape
    n_pixels = n // n_rows * window.height * window.width
    n_shares = max(1, min(MOST_SHARES, n_pixels // PIXELS_OF_A_SHARE))
    share = PIXELS_AT_ONCE * triton.cdiv(n_pixels, PIXELS_AT_ONCE * n_shares)
    shares = dy.new_empty(n_rows, n_shares, n_outputs, *kernel, n_channels, dtype=torch.float32)
    block_o = _at_once(n_outputs)
    n_parts = triton.cdiv(shares[0, 0, 0].numel(), NUMBERS_AT_ONCE)
    _kernel_shares[(n_shares, n_rows, n_parts * triton.cdiv(n_outputs, block_o))](
        channels_last(x), channels_last(dy), shares, n // n_rows, height, width,
        *divisor(window.height * window.width), *divisor(window.width), window.top, window.left,
        n_outputs, share, window.stride, n_channels, *kernel,
        PIXELS_AT_ONCE, block_o, NUMBERS_AT_ONCE, _precision(), _is_wide(x, dy),
        **SLOPES_OF_KERNELS,
    )  # fmt: skip
    return add_up(shares).to(weight.dtype).movedim(-1, 2)
