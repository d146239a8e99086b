"""Learnt shares of each task, some of which are exactly zero."""

import torch
from torch import Tensor

from ._base import row
from ._softmax import SoftmaxMatrix


class EntmaxMatrix(SoftmaxMatrix):
    """Shares of components that each task learns, of which small ones become exactly 0.

    `SoftmaxMatrix` with the 1.5-entmax of Peters, Niculae and Martins (2019), "Sparse
    Sequence-to-Sequence Models", in the place of the softmax; that these are a task's shares of
    components is ours. Nothing is drawn, so that training and evaluation see the same network, and
    what has no share for a task is left out where the task is extracted.

    Shares start equal. One that reached 0 has no gradient of its own, and comes back only where
    the shares of at least two others move. A task that is left with one component stays with it.

    >>> EntmaxMatrix(2, 4).matrix()
    tensor([[0.2500, 0.2500, 0.2500, 0.2500],
            [0.2500, 0.2500, 0.2500, 0.2500]])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
    """

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        return entmax(self.logits if task is None else row(self.logits, task))


def entmax(scores: Tensor) -> Tensor:
    """Returns shares ``[..., C]``: ``max(scores / 2 - t, 0) ** 2`` with the t that makes 1 of them.

    The t is found as published (their Algorithm 2), from the scores in descending order.

    >>> entmax(torch.tensor([2.0, 1.0, 0.0, -1.0]))
    tensor([0.8307, 0.1693, 0.0000, 0.0000])
    """
    halves = scores / 2
    # t moves with them, and what is more than 1 below the highest has no share.
    halves = (halves - halves.amax(dim=-1, keepdim=True).detach()).clamp_min(-1)
    ordered = halves.sort(dim=-1, descending=True).values
    n = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
    # If the n highest had all of it, their squares would sum to 1 with this t.
    mean = ordered.cumsum(dim=-1) / n
    variance = ordered.square().cumsum(dim=-1) / n - mean.square()
    # A root of 0 would have no finite gradient, also where its value is not used.
    thresholds = mean - (1 / n - variance).clamp_min(torch.finfo(scores.dtype).tiny).sqrt()
    n_shares = (thresholds <= ordered).sum(dim=-1, keepdim=True)
    last = n_shares.clamp_min(1) - 1  # of scores that are not finite none is counted
    return (halves - thresholds.gather(-1, last)).clamp_min(0).square()
