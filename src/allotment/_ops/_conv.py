"""Convolutions of few channels, in which the runs of a program are one launch."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._available import TYPES, are_of_one_type, kernels_run_on
from ._folding import fold_with_kernels, unfold

# Of the input. Libraries are slow where channels are few, above all when a batch over runs makes
# each run a group of channels; with more channels theirs are the fastest there are. With a single
# one there is too little to add up.
FEW = range(2, 17)
MOST_COLUMNS = 128  # of the product that gives the gradient of a square of pixels


class Window(NamedTuple):
    """How a kernel goes over an image.

    There are ``top`` and ``left`` pixels of 0 before the image, and after it as many as it takes
    for an output of ``height`` by ``width``.
    """

    stride: int
    top: int
    left: int
    height: int
    width: int


def can_convolve(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Tells whether a kernel can convolve images ``[B, C, H, W]``; under `vmap` as well."""
    if x.ndim != 4 or x.shape[1] != weight.shape[1] or not are_of_one_type(x, weight):
        return False
    n_channels = x.shape[1]
    is_few = n_channels in FEW and stride**2 * n_channels <= MOST_COLUMNS
    return is_few and x.dtype in TYPES and kernels_run_on(x)


def few_channels(x: Tensor, weight: Tensor, window: Window) -> Tensor:
    """Returns images ``[B, C, H, W]`` convolved with kernels ``[O, C, h, w]``."""
    y: Tensor = _Convolution.apply(x, weight.unsqueeze(0), window)  # type: ignore[no-untyped-call]
    return y


def own_kernels(x: Tensor, weight: Tensor, window: Window) -> Tensor:
    """Returns images ``[B, C, H, W]``, each convolved with its own kernels ``[B, O, C, h, w]``."""
    if can_convolve(x, weight[:, 0], window.stride):
        y: Tensor = _Convolution.apply(x, weight, window)  # type: ignore[no-untyped-call]
        return y
    n, n_outputs, _, *size = weight.shape
    if n == 0:  # and no groups, which torch does not take
        return x.new_zeros(0, n_outputs, window.height, window.width)
    last = zip((window.height, window.width), size, strict=True)
    needed = [(n_steps - 1) * window.stride + side for n_steps, side in last]
    bottom, right = (
        max(0, far - before - side)
        for far, before, side in zip(needed, (window.top, window.left), x.shape[-2:], strict=True)
    )
    padded = F.pad(x, (window.left, right, window.top, bottom))
    # The images' channels one after another: each image is a group of them.
    y = F.conv2d(
        padded.flatten(0, 1).unsqueeze(0), weight.flatten(0, 1), stride=window.stride, groups=n
    )
    return y.view(n, n_outputs, *y.shape[-2:])


class _Convolution(torch.autograd.Function):
    """The kernels, for images ``[N, C, H, W]`` and rows of kernels ``[K, O, C, h, w]``.

    Each row of kernels serves the next ``N / K`` images.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor, window: Window) -> Tensor:
        from ._kernels import convolve  # here, since it needs Triton

        return convolve(x, weight, window)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.window = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from ._kernels import image_gradients, kernel_gradients

        (x, weight), (dy,), window = ctx.saved_tensors, gradients, ctx.window
        dx = image_gradients(dy, weight, x.shape, window) if ctx.needs_input_grad[0] else None
        dweight = kernel_gradients(dy, x, weight, window) if ctx.needs_input_grad[1] else None
        return dx, dweight, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, weight: Tensor, window: Window
    ) -> tuple[Tensor, int]:
        folded = fold_with_kernels(info.batch_size, in_dims, x, weight)
        y = _Convolution.apply(*folded, window)  # type: ignore[no-untyped-call]
        return unfold(info.batch_size, y), 0
