"""Convolutions of many channels, by the library that torch calls, with one for each run."""

from contextvars import copy_context
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .._side_by_side import side_by_side
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
    if not (_is_on_gpu(x) and is_batched(weight) and x.ndim == 4 and are_of_one_type(x, weight)):
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
        return _in_one(side_by_side(calls, [x, weight]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(x, weight)
        ctx.streams = copy_context()  # the backward pass runs in another thread

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), dy = ctx.saved_tensors, gradients[0]
        of_images, of_kernels = ctx.needs_input_grad[:2]
        how = {"stride": ctx.stride, "padding": ctx.padding, "wanted": (of_images, of_kernels)}
        rows = zip(_by_row(dy, len(weight)), _by_row(x, len(weight)), weight.unbind(0), strict=True)
        calls = [partial(_slopes, *row, **how) for row in rows]
        found = ctx.streams.copy().run(side_by_side, calls, [x, weight, dy])
        dx = _in_one([slopes[0] for slopes in found]) if of_images else None
        if not of_kernels:
            return dx, None, None, None
        # As kernels lie, so that their gradient needs no copy into another layout; and flat, since
        # torch puts tensors of five dimensions together one by one.
        as_they_lie = [slopes[-1].movedim(1, -1) for slopes in found]
        together = torch.stack([kernels.flatten() for kernels in as_they_lie])
        return dx, together.view(-1, *as_they_lie[0].shape).movedim(-1, 2), None, None

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


def _slopes(
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    *,
    stride: Pair,
    padding: Pair,
    wanted: tuple[bool, bool],
) -> tuple[Tensor, ...]:
    """Returns the gradients of images and of kernels, of which some are wanted."""
    found = torch.ops.aten.convolution_backward(
        dy, x, weight, None, stride, padding, (1, 1), False, (0, 0), 1, (*wanted, False)
    )
    return tuple(slopes for slopes, is_wanted in zip(found, wanted, strict=False) if is_wanted)
