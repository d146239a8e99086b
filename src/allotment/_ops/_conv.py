"""Convolutions of few channels by kernels of our own, and of many by the library that torch calls.

With few channels the runs of a program are one launch; with many, each run has one to itself.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._available import TYPES, are_of_one_type, kernels_run_on
from ._folding import fold, unfold
from ._streams import on_streams

# Of the input. Libraries are slow where channels are few, above all when a batch over runs makes
# each run a group of channels; with more channels theirs are the fastest there are. With a single
# one there is too little to add up.
FEW = range(2, 17)
MOST_COLUMNS = 128  # of the product that gives the gradient of a square of pixels

Pair = tuple[int, int]


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
        n, is_for_all = info.batch_size, in_dims[1] is None and len(weight) == 1
        rows = weight if is_for_all else fold(n, in_dims[1], weight)  # one for all needs no copies
        y = _Convolution.apply(fold(n, in_dims[0], x), rows, window)  # type: ignore[no-untyped-call]
        return unfold(n, y), 0


def many_channels(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
) -> Tensor:
    """Returns images ``[B, C, H, W]`` convolved with kernels ``[O, C, h, w]``.

    Where kernels are batched over runs, torch's own would make each run a group of channels of one
    convolution, on a GPU between copies into other layouts. Here each has a convolution to itself.
    """
    # Torch has no public name for what tells that `vmap` has added a dimension.
    is_batched = torch._C._functorch.is_batchedtensor(weight)
    if not (_is_on_gpu(x) and is_batched and x.ndim == 4 and are_of_one_type(x, weight)):
        return F.conv2d(x, weight, bias, stride, padding)
    y: Tensor = _OfRuns.apply(x, weight, stride, padding)  # type: ignore[no-untyped-call]
    return y if bias is None else y + bias.view(-1, 1, 1)


def _is_on_gpu(x: Tensor) -> bool:
    return x.is_cuda


class _OfRuns(torch.autograd.Function):
    """A convolution that batched over runs is one for each, which torch can differentiate."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> Tensor:
        return F.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass  # the operations below know their own gradients

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, weight: Tensor, *how: Pair
    ) -> tuple[Tensor, int]:
        of_images, of_kernels = in_dims[:2]
        if of_kernels is None:  # all tasks of one run at once: one larger batch
            assert of_images is not None
            images = x.movedim(of_images, 0)
            y = many_channels(images.flatten(0, 1), weight, None, *how)
            return y.unflatten(0, images.shape[:2]), 0
        kernels = weight.unbind(of_kernels)
        own = [x] * len(kernels) if of_images is None else x.unbind(of_images)
        pairs = zip(own, kernels, strict=True)
        calls = [partial(F.conv2d, *pair, None, *how) for pair in pairs]
        return torch.stack(on_streams(calls, [x, weight])), 0
