"""Images that go into several branches, whose gradients come back and are added in one pass."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._available import can_fuse
from ._folding import fold, unfold
from ._mix import MOST_GROUPS


def for_branches(x: Tensor, n: int) -> list[Tensor]:
    """Returns images ``[B, C, H, W]``, once for each of ``n`` branches.

    Used by all of them as they are, autograd would add two gradients at a time.
    """
    if n < 3 or n > MOST_GROUPS or not can_fuse(x):
        return [x] * n
    return list(_Branches.apply(x, n))  # type: ignore[no-untyped-call]


class _Branches(torch.autograd.Function):
    """The kernel, for images ``[N, C, H, W]``."""

    @staticmethod
    def forward(x: Tensor, n: int) -> tuple[Tensor, ...]:
        return tuple(x.view_as(x) for _ in range(n))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)  # no zeros for a branch that has no gradient

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        from ._kernels import add_images  # here, since it needs Triton

        known = [gradient for gradient in gradients if gradient is not None]
        return add_images(known) if known else None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, n: int
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        branches = _Branches.apply(fold(info.batch_size, in_dims[0], x), n)  # type: ignore[no-untyped-call]
        return tuple(unfold(info.batch_size, branch) for branch in branches), (0,) * n
