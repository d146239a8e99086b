"""Convolutions of many channels by the library that torch calls, one for each run."""

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ._available import are_of_one_type
from ._folding import is_batched
from ._streams import on_streams

Pair = tuple[int, int]


def many_channels(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair
) -> Tensor:
    """Returns images ``[B, C, H, W]`` convolved with kernels ``[O, C, h, w]``.

    Where kernels are batched over runs, torch's own would make each run a group of channels of one
    convolution, on a GPU between copies into other layouts. Here each has a convolution to itself.
    """
    is_own = _is_on_gpu(x) and is_batched(weight) and x.ndim == 4 and are_of_one_type(x, weight)
    if not is_own:
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
