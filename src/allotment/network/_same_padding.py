"""Convolutions and pools with "same" padding: the output has ``ceil(size / stride)`` pixels.

Where the padding is odd in number, one more pixel is added after the image than before it. That is
the rule of the library the authors used; torch's own padding is the same on both sides.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from ._fused import Window, can_convolve, few_channels, pool3x3


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Returns how many pixels to add before and after a side of ``size`` pixels."""
    n_outputs = -(-size // stride)
    total = max((n_outputs - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class SameConv2d(nn.Conv2d):
    """A convolution with "same" padding."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int | tuple[int, int], stride: int = 1
    ) -> None:
        super().__init__(in_channels, out_channels, kernel, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the convolved images."""
        # In mixed precision kernels are short and biases are not.
        bias = None if self.bias is None else self.bias.to(self.weight.dtype)
        return same_convolution(x, self.weight, bias, self.stride)


def same_convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...]
) -> Tensor:
    """Returns ``x`` convolved with kernels ``[O, I, h, w]`` under "same" padding."""
    sides = zip(x.shape[-2:], weight.shape[-2:], stride, strict=True)
    (top, bottom), (left, right) = (same_padding(*side) for side in sides)
    if bias is None and stride[0] == stride[1] and can_convolve(x, weight, stride[0]):
        height, width = (-(-side // stride[0]) for side in x.shape[-2:])
        return few_channels(x, weight, Window(stride[0], top, left, height, width))
    if weight.shape[-2:] == (1, 1) and weight.shape[1] < 8 and tuple(stride) == (1, 1):
        # Libraries are slow where channels are few; per pixel this is a product.
        pixels = F.linear(x.movedim(-3, -1), weight.flatten(1), bias)
        return pixels.movedim(-1, -3)
    if (top, left) == (bottom, right):
        return F.conv2d(x, weight, bias, stride, (top, left))
    return F.conv2d(F.pad(x, (left, right, top, bottom)), weight, bias, stride)


class SameMaxPool2d(nn.Module):
    """The largest of 3x3 pixels; pixels outside the image do not count."""

    def __init__(self, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Returns the pooled images."""
        return _same_pool(x, self.stride, largest=True)

    def extra_repr(self) -> str:
        return f"stride={self.stride}"


class SameAvgPool2d(nn.Module):
    """The mean of those of 3x3 pixels that lie inside the image."""

    def __init__(self, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Returns the pooled images."""
        return _same_pool(x, self.stride, largest=False)

    def extra_repr(self) -> str:
        return f"stride={self.stride}"


def _same_pool(x: Tensor, stride: int, *, largest: bool) -> Tensor:
    height, width = x.shape[-2:]
    padding = (same_padding(height, 3, stride)[0], same_padding(width, 3, stride)[0])
    size = (-(-height // stride), -(-width // stride))
    return pool3x3(x, stride, padding, size, largest=largest)
