"""Gates drawn by straight-through Gumbel-Softmax, and the weights they give."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._available import kernels_run_on
from ._folding import fold, unfold


def can_draw(logits: Tensor) -> bool:
    """Tells whether the kernel can draw from logits; under `vmap` too."""
    return logits.dtype == torch.float32 and kernels_run_on(logits)


def drawn_weights(
    logits: Tensor, task: Tensor, noise: Tensor, step: Tensor, start: float, floor: float
) -> Tensor:
    """Returns a task's gates divided by their sum, ``[C]``, given logits ``[T, C, 2]``.

    ``noise``, ``[C]``, is uniform. The temperature is ``start / sqrt(step + 1)``, or ``floor``
    where that is higher.
    """
    rows = (logits.unsqueeze(0), task.reshape(1), noise.unsqueeze(0))
    weights: Tensor = _Draw.apply(*rows, step, start, floor)[0]  # type: ignore[no-untyped-call]
    return weights.squeeze(0)


class _Draw(torch.autograd.Function):
    """The kernels, for ``K`` draws: logits ``[K, T, C, 2]``, tasks ``[K]``, noise ``[K, C]``."""

    @staticmethod
    def forward(
        logits: Tensor, tasks: Tensor, noise: Tensor, step: Tensor, start: float, floor: float
    ) -> tuple[Tensor, Tensor]:
        from ._kernels import draw  # here, since it needs Triton

        return draw(logits, tasks, noise, step, start, floor)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        logits, tasks = inputs[:2]
        ctx.shape = logits.shape
        ctx.set_materialize_grads(False)  # no zeros for the second output, which has no gradient
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(tasks, *output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from ._kernels import draw_backward

        tasks, weights, derivatives = ctx.saved_tensors
        dlogits = draw_backward(gradients[0], tasks, weights, derivatives, ctx.shape)
        return dlogits, None, None, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *arguments: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        *rows, step, start, floor = arguments
        folded = [fold(info.batch_size, dim, t) for dim, t in zip(in_dims, rows, strict=False)]
        drawn = _Draw.apply(*folded, step, start, floor)  # type: ignore[no-untyped-call]
        weights, derivatives = (unfold(info.batch_size, part) for part in drawn)
        return (weights, derivatives), (0, 0)
