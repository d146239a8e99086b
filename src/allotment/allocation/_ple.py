"""Gates of progressive layered extraction: over own and shared components, for each stream."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._checks import check_count
from ._base import row
from ._cgc import own_or_shared
from ._features import LinearGate, example_features
from ._streams import StreamAllocation


class PLE(StreamAllocation):
    """Progressive layered extraction: a softmax, for each stream and example, over components.

    Tang et al. (2020), "Progressive Layered Extraction (PLE): A Novel Multi-Task Learning (MTL)
    Model for Personalized Recommendations". As published, there is a stream for each task and one
    that is shared. A task's gate sees its own components and the shared ones, the gate of the
    shared stream sees all, and each gate looks at its stream. At the last layer there are the
    tasks' gates alone. The bias of a gate, which starts at zero, is ours.

    It is for a `ColumnLayer`, see the structure `ple`. In a plain `ModularLayer` it is `CGC`.
    Components stand in this order: those of the first task, of the second, and so on, then the
    shared ones. `matrix` and `probabilities` are the shares for an example whose features are all
    zero.

    >>> from allotment.allocation import PLE
    >>> PLE(n_tasks=2, n_components=5, n_features=8, n_own=2)
    PLE(
      n_tasks=2, n_components=5, n_shared=1, n_streams=0
      (gate): LinearGate(n_features=8)
    )

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer, own and shared.
        n_features: Features, or channels, of a stream. Images are averaged over pixels.
        n_own: How many components each task has of its own; the others are shared.
        n_streams: ``T + 1``, or 0 at the last layer.

    Attributes:
        reads: The stream of each component: its task's, or the last one for the shared.
        allowed: Whether a stream may see a component, ``[S, C]``, or ``[T, C]`` at the last layer.
    """

    is_binary = False
    sees_examples = True
    allowed: Tensor

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        n_features: int,
        n_own: int = 1,
        n_streams: int = 0,
    ) -> None:
        super().__init__(n_tasks, n_components)
        _check_sizes(n_tasks, n_components, n_own, n_streams)
        self.n_shared = n_components - n_tasks * n_own
        allowed = own_or_shared(n_tasks, n_components, self.n_shared)
        if n_streams:
            allowed = torch.cat([allowed, torch.ones_like(allowed[:1])])
        self.register_buffer("allowed", allowed)
        self.gate = LinearGate(n_streams or n_tasks, n_components, n_features)
        self.n_streams = n_streams
        self.reads = [task for task in range(n_tasks) for _ in range(n_own)]
        self.reads += [n_tasks] * self.n_shared

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return _softmax_over(row(self.allowed, task), self.gate(task, x))

    def stream_weights(self, streams: Sequence[Any], *, noise: Tensor | None = None) -> Tensor:
        weight, bias = self.gate.weight, self.gate.bias  # [S, C, D], [S, C]
        parts = [example_features(x, self.gate.n_features).to(weight.dtype) for x in streams]
        features = torch.stack(parts).expand(self.n_streams, -1, -1)  # [S, B, D]
        scores = torch.bmm(features, weight.transpose(1, 2)) + bias.unsqueeze(1)
        return _softmax_over(self.allowed.unsqueeze(1), scores.to(weight.dtype))  # [S, B, C]

    def matrix(self) -> Tensor:
        return self.probabilities().detach()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        shares = _softmax_over(self.allowed, self.gate.bias)[: self.n_tasks]
        return shares if task is None else row(shares, task)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, n_shared={self.n_shared}, n_streams={self.n_streams}"


def _softmax_over(allowed: Tensor, scores: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)


def _check_sizes(n_tasks: int, n_components: int, n_own: int, n_streams: int) -> None:
    check_count("n_own", n_own)
    if n_components <= n_tasks * n_own:
        raise ValueError(
            "`n_components` should be more than `n_tasks * n_own`, so that some are shared. "
            f"Found {n_components} components for {n_tasks} tasks with {n_own} each."
        )
    if n_streams not in (0, n_tasks + 1):
        raise ValueError(
            f"`n_streams` should be {n_tasks + 1}, one for each task and a shared one, or 0 at the "
            f"last layer. Found `n_streams = {n_streams}`."
        )
