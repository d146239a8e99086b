"""What several kernels share: parts of images, sums, division as a product, rows, layouts."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

SHARES_AT_ONCE = 32  # at most
SUMS_AT_ONCE = 64


@triton.jit
def part_and_image(n_parts):
    """Returns which part of which image a program has; those of one image follow each other.

    All programs stand along the first axis: along the others CUDA allows 65,535, and under `vmap`
    the images of all runs and components are one launch.
    """
    index = tl.program_id(0)
    return index % n_parts, index // n_parts


@triton.jit
def _add_up(shares, sums, n_shares, n_numbers, BLOCK_S: tl.constexpr, BLOCK_N: tl.constexpr):
    """Writes some of the sums of one row, always added in the same order."""
    row = tl.program_id(1).to(tl.int64)
    numbers = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    own = shares + row * n_shares * n_numbers
    total = tl.zeros([BLOCK_S, BLOCK_N], tl.float32)
    for start in range(0, n_shares, BLOCK_S):
        some = start + tl.arange(0, BLOCK_S)
        known = (some < n_shares)[:, None] & (numbers < n_numbers)[None, :]
        places = some[:, None] * n_numbers + numbers[None, :]
        total += tl.load(own + places, mask=known, other=0.0)
    sums += row * n_numbers
    tl.store(sums + numbers, tl.sum(total, axis=0), mask=numbers < n_numbers)


def add_up(shares: Tensor) -> Tensor:
    """Returns shares ``[K, S, ...]`` in float32 summed over S, in one launch."""
    n_rows, n_shares, *rest = shares.shape
    sums = shares.new_empty(n_rows, *rest)
    n_numbers = sums[0].numel()
    block = min(SHARES_AT_ONCE, triton.next_power_of_2(max(n_shares, 1)))
    _add_up[(triton.cdiv(n_numbers, SUMS_AT_ONCE), n_rows)](
        shares, sums, n_shares, n_numbers, block, SUMS_AT_ONCE
    )
    return sums


def divisor(by: int) -> tuple[int, int, int]:
    """Returns a divisor below 2^31, with the factor and the shift that stand for it.

    The quotient is the product of the factor and twice the number, without its lower 32 bits and
    then without as many as the shift says. The factor is in 32 bits and may look negative. In place
    of 0, the size of an image without pixels, stands 1.
    """
    by = max(by, 1)
    shift = (by - 1).bit_length()
    factor = -(-(2 ** (31 + shift)) // by)
    return by, factor - 2**32 * (factor >= 2**31), shift


@triton.jit
def _divided(numbers, by, factor, shift):
    """Returns quotients and remainders of numbers from 0 to 2^31."""
    doubled = numbers.to(tl.uint32) << 1
    high = tl.umulhi(doubled, factor.to(tl.uint32, bitcast=True))
    quotients = (high >> shift).to(tl.int32)
    return quotients, numbers - quotients * by


@triton.jit
def places_of(pixels, area, area_factor, area_shift, side, side_factor, side_shift):
    """Returns which images pixels are of, and their rows and columns there.

    Images have ``area`` pixels, and ``side`` in a row.
    """
    image, place = _divided(pixels, area, area_factor, area_shift)
    y, x = _divided(place, side, side_factor, side_shift)
    return image, y, x


@triton.jit
def read_row(table, row, stride, channels, known, HAS_ROWS: tl.constexpr):
    """Returns the parameters of a row in float32; zeros where there is no table."""
    if HAS_ROWS:
        place = table + row.to(tl.int64) * stride + channels
        return tl.load(place, mask=known, other=0.0).to(tl.float32)
    return tl.zeros_like(channels).to(tl.float32)


def rows_of(*tables: Tensor | None) -> tuple[list[Tensor | None], list[int]]:
    """Returns tables ``[K, C]`` whose rows have no gaps inside, and how far rows are apart."""
    found = [
        table if table is None or table.stride(1) == 1 else table.contiguous() for table in tables
    ]
    return found, [0 if table is None else table.stride(0) for table in found]


def channels_last(x: Tensor) -> Tensor:
    """Returns images ``[N, C, H, W]`` that lie in memory as ``[N, H, W, C]``."""
    return x.contiguous(memory_format=torch.channels_last)


def new_images(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Returns room for images of a shape, with the channels last in memory."""
    return torch.empty(
        shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last
    )
