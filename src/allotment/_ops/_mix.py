"""The weighted sum of components' outputs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._available import can_fuse
from ._folding import fold, unfold

MOST_GROUPS = 8  # a kernel has so many arguments for them


def mix(weights: Tensor, outputs: Sequence[Tensor]) -> Tensor:
    """Returns the weighted sum of outputs that stand in groups, ``[G, B, ...]`` each.

    ``weights``, shape ``[C]``, or ``[B, C]`` with those of each example's own, are in the order of
    the groups and of the outputs in each.
    """
    sizes = {len(group) for group in outputs}
    if can_fuse(outputs[0][0]) and len(outputs) <= MOST_GROUPS and len(sizes) == 1:
        # As they come from one convolution: the channels of a group one after another.
        channels = [group.transpose(0, 1).flatten(1, 2) for group in outputs]
        rows = weights.reshape(-1, weights.shape[-1])
        y: Tensor = _Mix.apply(rows, *channels)  # type: ignore[no-untyped-call]
        return y
    together = outputs[0] if len(outputs) == 1 else torch.cat(list(outputs))  # [C, B, ...]
    weights = weights.to(together.dtype)
    if weights.ndim == 1:
        return (weights @ together.flatten(1)).view(together.shape[1:])
    columns = weights.movedim(-1, 0)
    return (columns.view(*columns.shape, *[1] * (together.ndim - 2)) * together).sum(0)


class _Mix(torch.autograd.Function):
    """The kernels, for groups of ``G`` outputs, ``[N, G * O, H, W]`` each, and weights ``[K, C]``.

    Each row of weights serves the next ``N / K`` images.
    """

    @staticmethod
    def forward(weights: Tensor, *groups: Tensor) -> Tensor:
        from ._kernels import add_weighted  # here, since it needs Triton

        return add_weighted(weights, groups)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        from ._kernels import add_weighted_backward

        weights, *groups = ctx.saved_tensors
        dweights, dgroups = add_weighted_backward(gradients[0], weights, groups)
        return dweights, *dgroups

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor) -> tuple[Tensor, int]:
        pairs = zip(in_dims, arguments, strict=True)
        folded = [fold(info.batch_size, dim, tensor) for dim, tensor in pairs]
        y = _Mix.apply(*folded)  # type: ignore[no-untyped-call]
        return unfold(info.batch_size, y), 0
