"""Where a kernel stands on an image under "same" padding.

The output has ``ceil(size / stride)`` pixels on each side. Where the padding is odd in number, one
more pixel is added after the image than before it. That is the rule of the library the authors
used; torch's own padding is the same on both sides.
"""

from collections.abc import Sequence

from ..._ops import Window


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Returns how many pixels to add before and after a side of ``size`` pixels."""
    n_outputs = -(-size // stride)
    total = max((n_outputs - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def same_window(image: Sequence[int], kernel: Sequence[int], stride: int) -> Window:
    """Returns how a kernel of two sides goes over an image of two sides."""
    sides = zip(image, kernel, strict=True)
    top, left = (same_padding(size, own, stride)[0] for size, own in sides)
    height, width = (-(-size // stride) for size in image)
    return Window(stride, top, left, height, width)
