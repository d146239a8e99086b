"""The largest or the mean of 3x3 pixels, of those that lie inside the image."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._available import can_fuse
from ._folding import fold, unfold


def pool3x3(
    x: Tensor, stride: int, padding: tuple[int, int], size: tuple[int, int], *, largest: bool
) -> Tensor:
    """Returns pooled images; ``padding`` is what stands before each side, ``size`` the output's."""
    if can_fuse(x):
        y: Tensor = _Pool.apply(x, stride, padding, size, largest)[0]  # type: ignore[no-untyped-call]
        return y
    # A window may reach beyond the end of a side where the output asks for it.
    sides = zip(x.shape[-2:], padding, size, strict=True)
    ceil_mode = any((n + 2 * before - 3) // stride + 1 < wanted for n, before, wanted in sides)
    if largest:
        return F.max_pool2d(x, 3, stride, padding, ceil_mode=ceil_mode)
    return F.avg_pool2d(x, 3, stride, padding, ceil_mode=ceil_mode, count_include_pad=False)


class _Pool(torch.autograd.Function):
    """The kernels, for images ``[N, C, H, W]``."""

    @staticmethod
    def forward(
        x: Tensor, stride: int, padding: tuple[int, int], size: tuple[int, int], largest: bool
    ) -> tuple[Tensor, Tensor]:
        from ._kernels import pool  # here, since it needs Triton

        return pool(x, stride, padding, size, largest)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, ctx.stride, ctx.padding, _, ctx.largest = inputs
        ctx.shape = x.shape
        ctx.set_materialize_grads(False)  # no zeros for the second output, which has no gradient
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from ._kernels import pool_backward

        dx = pool_backward(
            gradients[0], ctx.saved_tensors[0], ctx.shape, ctx.stride, ctx.padding, ctx.largest
        )
        return dx, None, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *arguments: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        x, *rest = arguments
        y, chosen = _Pool.apply(fold(info.batch_size, in_dims[0], x), *rest)  # type: ignore[no-untyped-call]
        return (unfold(info.batch_size, y), unfold(info.batch_size, chosen)), (0, 0)
