"""Convolutions of many channels by the library that torch calls, one for each run.

On the way back, gradients of images and of kernels are computed at the same time.
"""

from contextvars import copy_context
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ._streams import has_streams, on_streams
from ._available import are_of_one_type
from ._folding import fold_with_kernels, is_batched, unfold

Pair = tuple[int, int]


def many_channels(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
) -> Tensor:
    """Returns images ``[B, C, H, W]`` convolved with kernels ``[O, C, h, w]``.

    Where kernels are batched over runs, torch's own would make each run a group of channels of one
    convolution, on a GPU between copies into other layouts. Here each has a convolution to itself.
    """
    # A lone run gains where it leaves the device idle; the batches of all tasks at once do not.
    gains = is_batched(weight) or (has_streams() and not is_batched(x))
    if not (_is_on_gpu(x) and gains and x.ndim == 4 and are_of_one_type(x, weight)):
        return F.conv2d(x, weight, bias, stride, padding)
    y: Tensor = _Convolution.apply(x, weight.unsqueeze(0), stride, padding)  # type: ignore[no-untyped-call]
    return y if bias is None else y + bias.view(-1, 1, 1)


def _is_on_gpu(x: Tensor) -> bool:
    return x.is_cuda


class _Convolution(torch.autograd.Function):
    """For images ``[N, C, H, W]`` and rows of kernels ``[K, O, C, h, w]``.

    Each row of kernels serves the next ``N / K`` images.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: Pair, padding: Pair) -> Tensor:
        pairs = zip(_by_row(x, len(weight)), weight.unbind(0), strict=True)
        calls = [partial(F.conv2d, *pair, None, stride, padding) for pair in pairs]
        return _in_one(on_streams(calls, [x, weight]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(x, weight)
        ctx.streams = copy_context()  # the backward pass runs in another thread

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), dy = ctx.saved_tensors, gradients[0]
        wants_images, wants_kernels = ctx.needs_input_grad[:2]
        slope = partial(_slope, stride=ctx.stride, padding=ctx.padding)
        parts = (_by_row(dy, len(weight)), _by_row(x, len(weight)), weight.unbind(0))
        rows = list(zip(*parts, strict=True))
        of_images = [partial(slope, *row, of_images=True) for row in rows if wants_images]
        of_kernels = [partial(slope, *row, of_images=False) for row in rows if wants_kernels]
        found = ctx.streams.copy().run(on_streams, of_images + of_kernels, [x, weight, dy])
        dx = _in_one(found[: len(of_images)]) if wants_images else None
        # As kernels lie, so that their gradient needs no copy into another layout.
        as_they_lie = [kernels.movedim(1, -1) for kernels in found[len(of_images) :]]
        return dx, _stacked(as_they_lie).movedim(-1, 2) if wants_kernels else None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, weight: Tensor, *how: Pair
    ) -> tuple[Tensor, int]:
        folded = fold_with_kernels(info.batch_size, in_dims, x, weight)
        y = _Convolution.apply(*folded, *how)  # type: ignore[no-untyped-call]
        return unfold(info.batch_size, y), 0


def _by_row(images: Tensor, n_rows: int) -> tuple[Tensor, ...]:
    """Returns the images that each row of kernels serves."""
    parts: tuple[Tensor, ...] = images.unflatten(0, (n_rows, len(images) // n_rows)).unbind(0)
    return parts


def _in_one(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _stacked(parts: list[Tensor]) -> Tensor:
    """Returns tensors one behind another in a new dimension.

    Flat on the way, since torch copies those of five dimensions one by one.
    """
    if len(parts) == 1:
        return parts[0].unsqueeze(0)
    return torch.stack([part.flatten() for part in parts]).view(-1, *parts[0].shape)


def _slope(
    dy: Tensor, x: Tensor, weight: Tensor, *, stride: Pair, padding: Pair, of_images: bool
) -> Tensor:
    """Returns the gradient of images, or of kernels."""
    wanted = (of_images, not of_images, False)
    found = torch.ops.aten.convolution_backward(
        dy, x, weight, None, stride, padding, (1, 1), False, (0, 0), 1, wanted
    )
    slope: Tensor = found[0 if of_images else 1]
    return slope
