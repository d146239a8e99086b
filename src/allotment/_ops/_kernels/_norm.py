"""Group normalisation and ReLU of images of any size, by the kernels that suit them."""

import torch
from torch import Tensor

from . import _large_norm, _small_norm
from ._common import add_up


def normalise(
    x: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor, n_groups: int, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Returns the output, and statistics ``[N, 3, C]`` for the backward pass."""
    forward = (_small_norm if _small_norm.is_small(x, n_groups) else _large_norm).forward
    x = x.contiguous(memory_format=torch.channels_last)
    y, statistics = forward(x, bias, scale, shift, n_groups, epsilon)
    return y, statistics


def normalise_backward(
    dy: Tensor,
    x: Tensor,
    bias: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    statistics: Tensor,
    n_groups: int,
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of the images and of bias, scale and shift, ``[K, 3, C]``."""
    backward = (_small_norm if _small_norm.is_small(x, n_groups) else _large_norm).backward
    dy, x = (images.contiguous(memory_format=torch.channels_last) for images in (dy, x))
    dx, shares = backward(dy, x, bias, scale, shift, statistics, n_groups)
    return dx, add_up(shares.view(len(scale), -1, *shares.shape[1:]))
