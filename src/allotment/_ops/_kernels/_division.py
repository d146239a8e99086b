"""Division in Triton by numbers that the host knows, as a product.

A GPU has no instruction for it: written as a division, finding the places of pixels was more than
half of what a convolution of few channels had to do.
"""

import triton
import triton.language as tl


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
