"""Convolutions and pools with "same" padding, of ordinary and of two-colour images.

Padding: the output has ``ceil(size / stride)`` pixels on each side. Where the padding is odd in
number, one more pixel is added after the image than before it. That is the rule of the library the
authors used; torch's own padding is the same on both sides.

Two-colour images take far fewer products than others. Behind a stem that looks at one pixel at a
time, an image of ink on paper has two colours, each a number for every channel. A convolution of
many channels is then one of two, with kernels that meet the colours first: the same sums, in
another order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..._ops import Window, can_convolve, few_channels, many_channels, own_kernels, pool3x3


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


class TwoColourImage(NamedTuple):
    """Images ``[B, C, H, W]`` of few colours. Outside of them there is nothing, not even paper."""

    marks: Tensor  # [B, K, H, W]: how much of each colour a pixel has
    colours: Tensor  # [B, K, C]

    def convolved(self, weight: Tensor, stride: int = 1) -> Tensor:
        """Returns what kernels ``[O, C, h, w]`` make of it under "same" padding."""
        n_outputs, n_channels, *size = weight.shape
        # Channels last, as large kernels lie in training.
        rows = weight.permute(0, 2, 3, 1).reshape(-1, n_channels)
        met = self.colours.to(weight.dtype) @ rows.T  # [B, K, O * h * w]
        kernels = met.view(*met.shape[:2], n_outputs, *size).transpose(1, 2)
        return own_kernels(self.marks, kernels, same_window(self.marks.shape[-2:], size, stride))

    def pixels(self) -> Tensor:
        """Returns the images as they are."""
        kernels = self.colours.to(self.marks.dtype).transpose(1, 2)[..., None, None]
        return own_kernels(self.marks, kernels, same_window(self.marks.shape[-2:], (1, 1), 1))

    def mean_features(self) -> Tensor:
        """Returns the mean over pixels of each channel, ``[B, C]``, for gates of each example."""
        amounts = self.marks.flatten(2).mean(dim=2).to(self.colours.dtype)  # [B, K]
        return (amounts.unsqueeze(2) * self.colours).sum(dim=1)


class SameConv2d(nn.Conv2d):
    """A convolution with "same" padding.

    >>> SameConv2d(1, 8, 3, stride=2)(torch.zeros(2, 1, 7, 7)).shape
    torch.Size([2, 8, 4, 4])
    """

    fast_over_runs = True  # batched over runs, each has a convolution to itself

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int | tuple[int, int], stride: int = 1
    ) -> None:
        super().__init__(in_channels, out_channels, kernel, stride)

    def forward(self, x: Tensor | TwoColourImage) -> Tensor:
        # In mixed precision kernels are short and biases are not.
        bias = None if self.bias is None else self.bias.to(self.weight.dtype)
        return same_convolution(x, self.weight, bias, self.stride)


def same_convolution(
    x: Tensor | TwoColourImage, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...]
) -> Tensor:
    """Returns ``x`` convolved with kernels ``[O, I, h, w]`` under "same" padding."""
    is_square = stride[0] == stride[1]
    if isinstance(x, TwoColourImage):
        if is_square:
            y = x.convolved(weight, stride[0])
            return y if bias is None else y + bias.view(-1, 1, 1)
        x = x.pixels()
    if x.dtype == torch.bool:
        x = x.to(weight.dtype)
    if bias is None and is_square and can_convolve(x, weight, stride[0]):
        return few_channels(x, weight, same_window(x.shape[-2:], weight.shape[-2:], stride[0]))
    if _is_product(weight, stride):
        pixels = F.linear(x.movedim(-3, -1), weight.flatten(1), bias)
        return pixels.movedim(-1, -3)
    return _by_library(x, weight, bias, stride)


def _by_library(x: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...]) -> Tensor:
    """Returns a convolution as torch computes it, of an image that is padded first if need be."""
    sides = zip(x.shape[-2:], weight.shape[-2:], stride, strict=True)
    (top, bottom), (left, right) = (same_padding(*side) for side in sides)
    if (top, left) != (bottom, right):
        x, top, left = F.pad(x, (left, right, top, bottom)), 0, 0
    return many_channels(x, weight, bias, (stride[0], stride[1]), (top, left))


def _is_product(weight: Tensor, stride: tuple[int, ...]) -> bool:
    """Tells whether a convolution is better computed as a product for each pixel.

    Libraries are slow where channels are few.
    """
    is_pixel = weight.shape[-2:] == (1, 1) and tuple(stride) == (1, 1)
    return is_pixel and weight.shape[1] < 8


class _SamePool2d(nn.Module):
    """A number for each 3x3 pixels; pixels outside the image do not count."""

    def __init__(self, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride

    def extra_repr(self) -> str:
        return f"stride={self.stride}"

    def _pooled(self, x: Tensor, *, largest: bool) -> Tensor:
        window = same_window(x.shape[-2:], (3, 3), self.stride)
        before, size = (window.top, window.left), (window.height, window.width)
        return pool3x3(x, self.stride, before, size, largest=largest)


class SameMaxPool2d(_SamePool2d):
    """The largest of 3x3 pixels; pixels outside the image do not count.

    >>> SameMaxPool2d(stride=2)(torch.zeros(2, 1, 7, 7)).shape
    torch.Size([2, 1, 4, 4])
    """

    def forward(self, x: Tensor | TwoColourImage) -> Tensor:
        if not isinstance(x, TwoColourImage):
            return self._pooled(x, largest=True)
        paper, ink = self._pooled(x.marks, largest=True).unbind(1)  # 1: there is some
        marks = torch.stack([paper * (1 - ink), ink * (1 - paper), paper * ink], dim=1)
        larger = x.colours.amax(1, keepdim=True)  # where there is both
        return TwoColourImage(marks, torch.cat([x.colours, larger], dim=1)).pixels()


class SameAvgPool2d(_SamePool2d):
    """The mean of those of 3x3 pixels that lie inside the image.

    >>> SameAvgPool2d(stride=1)(torch.zeros(2, 1, 7, 7)).shape
    torch.Size([2, 1, 7, 7])
    """

    def forward(self, x: Tensor | TwoColourImage) -> Tensor:
        if not isinstance(x, TwoColourImage):
            return self._pooled(x, largest=False)
        return TwoColourImage(self._pooled(x.marks, largest=False), x.colours).pixels()
