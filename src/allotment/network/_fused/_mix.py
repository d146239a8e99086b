"""The weighted sum of components' outputs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._available import can_fuse
from ._folding import fold, unfold

MOST_OUTPUTS = 8  # a kernel has so many arguments for them


def mix(weights: Tensor, outputs: Sequence[Tensor]) -> Tensor:
    """Returns the sum of ``outputs``, ``[B, ...]`` each, times their weights ``[C]``."""
    if can_fuse(outputs[0]) and 1 < len(outputs) <= MOST_OUTPUTS:
        y: Tensor = _Mix.apply(weights.unsqueeze(0), *outputs)  # type: ignore[no-untyped-call]
        return y
    together = torch.stack(list(outputs))
    return (weights.to(together.dtype) @ together.flatten(1)).view(together.shape[1:])


class _Mix(torch.autograd.Function):
    """The kernels, for outputs ``[N, C, H, W]`` and weights ``[K, C]``.

    Each row of weights serves the next ``N / K`` images.
    """

    @staticmethod
    def forward(weights: Tensor, *outputs: Tensor) -> Tensor:
        from ._kernels import add_weighted  # here, since it needs Triton

        return add_weighted(weights, outputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        from ._kernels import add_weighted_backward

        weights, *outputs = ctx.saved_tensors
        dweights, doutputs = add_weighted_backward(gradients[0], weights, outputs)
        return dweights, *doutputs

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor) -> tuple[Tensor, int]:
        pairs = zip(in_dims, arguments, strict=True)
        y = _Mix.apply(*(fold(info.batch_size, dim, tensor) for dim, tensor in pairs))  # type: ignore[no-untyped-call]
        return unfold(info.batch_size, y), 0
