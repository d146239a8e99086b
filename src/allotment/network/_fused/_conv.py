"""Convolutions of few channels, in which the runs of a program are one launch."""

from typing import Any

import torch
from torch import Tensor

from ._available import TYPES, kernels_run_on
from ._folding import fold, unfold

# Of the input. Libraries are slow where channels are few, above all when a batch over runs makes
# each run a group of channels; with more channels theirs are the fastest there are. With a single
# one there is too little to add up.
FEW = range(2, 17)


def can_convolve(x: Tensor, weight: Tensor) -> bool:
    """Tells whether a kernel can convolve images ``[B, C, H, W]``; under `vmap` as well."""
    is_known = x.dtype in TYPES and weight.dtype in TYPES
    return x.ndim == 4 and is_known and weight.shape[1] in FEW and kernels_run_on(x)


def few_channels(
    x: Tensor,
    weight: Tensor,
    stride: int,
    padding: tuple[int, int],
    size: tuple[int, int],
) -> Tensor:
    """Returns ``x`` convolved with kernels ``[O, C, h, w]`` into images of ``size``.

    ``padding`` is how many pixels of 0 lie above and to the left of an image; below and to the
    right there are as many as it takes.
    """
    window = (stride, *padding, *size)
    y: Tensor = _Convolution.apply(x.to(weight.dtype), weight.unsqueeze(0), window)  # type: ignore[no-untyped-call]
    return y


class _Convolution(torch.autograd.Function):
    """The kernels, for images ``[N, C, H, W]`` and rows of kernels ``[K, O, C, h, w]``.

    Each row of kernels serves the next ``N / K`` images.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor, window: tuple[int, ...]) -> Tensor:
        from ._kernels import Window, convolve  # here, since it needs Triton

        return convolve(x, weight, Window(*window))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.window = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from ._kernels import Window, image_slopes, kernel_slopes

        x, weight = ctx.saved_tensors
        (dy,), window = gradients, Window(*ctx.window)
        dx = image_slopes(dy, weight, x.shape, window) if ctx.needs_input_grad[0] else None
        dweight = kernel_slopes(dy, x, weight, window) if ctx.needs_input_grad[1] else None
        return dx, dweight, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, weight: Tensor, window: Any
    ) -> tuple[Tensor, int]:
        images = fold(info.batch_size, in_dims[0], x)
        # One row that serves everything needs no copies.
        is_for_all = in_dims[1] is None and len(weight) == 1
        rows = weight if is_for_all else fold(info.batch_size, in_dims[1], weight)
        y = _Convolution.apply(images, rows, window)  # type: ignore[no-untyped-call]
        return unfold(info.batch_size, y), 0
