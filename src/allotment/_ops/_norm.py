"""Group normalisation and ReLU of images to which a bias is added first."""

from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._available import can_fuse
from ._folding import fold, unfold


def norm_relu(
    x: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor, n_groups: int, epsilon: float
) -> Tensor:
    """Returns ``relu(group_norm(x + bias))`` of images ``[B, C, H, W]``, with ``[C]`` each."""
    if can_fuse(x):
        rows = [None if row is None else row.unsqueeze(0) for row in (bias, scale, shift)]
        y: Tensor = _NormReLU.apply(x, *rows, n_groups, epsilon)[0]  # type: ignore[no-untyped-call]
        return y
    n, n_channels, *sides = x.shape
    moved = x if bias is None else x + bias.view(-1, 1, 1)
    # Not `F.group_norm`, which asks for a layout that `vmap` cannot tell. This one reads its
    # arguments as if they had no gaps, and on a GPU as if they had one type.
    dtype = torch.promote_types(moved.dtype, scale.dtype)
    moved, scale, shift = (part.to(dtype).contiguous() for part in (moved, scale, shift))
    sizes = n, n_channels, prod(sides)
    y = torch.native_group_norm(moved, scale, shift, *sizes, n_groups, epsilon)[0]
    return F.relu(y.to(x.dtype))  # bias, scale and shift may be more precise than the images


class _NormReLU(torch.autograd.Function):
    """The kernels, for images ``[N, C, H, W]`` and bias, scale and shift ``[K, C]``.

    Each row of parameters serves the next ``N / K`` images.
    """

    @staticmethod
    def forward(
        x: Tensor, bias: Tensor | None, scale: Tensor, shift: Tensor, n_groups: int, epsilon: float
    ) -> tuple[Tensor, Tensor]:
        from ._kernels import normalise  # here, since it needs Triton

        return normalise(x, bias, scale, shift, n_groups, epsilon)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.n_groups, _ = inputs
        statistics = output[1]
        ctx.set_materialize_grads(False)  # no zeros for the second output, which has no gradient
        ctx.mark_non_differentiable(statistics)
        ctx.save_for_backward(*tensors, statistics)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from ._kernels import normalise_backward

        x, bias, scale, shift, statistics = ctx.saved_tensors
        dx, shares = normalise_backward(
            gradients[0], x, bias, scale, shift, statistics, ctx.n_groups
        )
        dbias, dscale, dshift = shares.to(scale.dtype).unbind(1)
        return dx, None if bias is None else dbias, dscale, dshift, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *arguments: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        *tensors, n_groups, epsilon = arguments
        folded = [fold(info.batch_size, dim, t) for dim, t in zip(in_dims, tensors, strict=False)]
        y, statistics = _NormReLU.apply(*folded, n_groups, epsilon)  # type: ignore[no-untyped-call]
        return (unfold(info.batch_size, y), unfold(info.batch_size, statistics)), (0, 0)
