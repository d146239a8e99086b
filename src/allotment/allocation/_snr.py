"""Connections between the components of consecutive layers, drawn as hard concrete variables."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_at_least, check_count, check_probability
from ._base import row
from ._gumbel import uniform_like
from ._hard_concrete import _OFFSET, hard_concrete, hard_concrete_mean, hard_concrete_open
from ._streams import StreamAllocation


class SNR(StreamAllocation):
    """Sub-network routing: each connection of a component has a hard concrete variable.

    Ma et al. (2019), "SNR: Sub-Network Routing for Flexible Parameter Sharing in Multi-Task
    Learning". As published, a component of the next layer reads the sum of this layer's outputs,
    each times the variable of the connection; all tasks have the same variables, but at the last
    layer, where each task's head has its own; the noise of a variable is drawn and never learnt;
    and the expected number of open connections may be charged. Ours: variables are drawn once for
    a batch, and start so that each connection is open with probability ``p_init``.

    It is for a `ColumnLayer`, see the structures `snr_trans` and `snr_aver`. `matrix` and
    `probabilities` of a layer before the last are the means over a component's connections, and
    the same for all tasks.

    >>> from allotment.allocation import SNR
    >>> SNR(n_tasks=2, n_components=3, n_streams=3)
    SNR(n_tasks=2, n_components=3, n_streams=3, l0_weight=0.0)

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        n_streams: Number of components in the next layer; 0 at the last layer.
        p_init: Probability of each connection to be open at the start.
        l0_weight: What an open connection costs: the expected number of those that the task's
            batch may pass in this layer, times this, is added to its loss.

    Attributes:
        log_alpha: The learnt number of each connection, ``[S, C]``; at the last layer ``[T, C]``.
    """

    is_binary = False
    log_alpha: nn.Parameter

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        n_streams: int = 0,
        p_init: float = 0.5,
        l0_weight: float = 0.0,
    ) -> None:
        super().__init__(n_tasks, n_components)
        check_count("n_streams", n_streams, 0)
        check_probability("p_init", p_init)
        check_at_least("l0_weight", l0_weight, 0.0)
        p_open = torch.full((n_streams or n_tasks, n_components), float(p_init))
        self.log_alpha = nn.Parameter(torch.logit(p_open) + _OFFSET)
        self.n_streams = n_streams
        self.l0_weight = l0_weight
        self.n_noise = (n_streams or 1) * n_components

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        if self.n_streams:
            return self.stream_weights([], noise=noise).mean(0)
        return self._gates(row(self.log_alpha, task), noise)

    def stream_weights(self, streams: Sequence[Any], *, noise: Tensor | None = None) -> Tensor:
        return self._gates(self.log_alpha, noise)

    def _gates(self, log_alpha: Tensor, noise: Tensor | None) -> Tensor:
        """Returns the variables of one pass, each from 0 to 1."""
        if not self.training:
            return hard_concrete_mean(log_alpha)
        noise = uniform_like(log_alpha) if noise is None else noise
        return hard_concrete(log_alpha, noise.view(log_alpha.shape))

    def matrix(self) -> Tensor:
        return self._by_task(hard_concrete_mean(self.log_alpha.detach()))

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        p_open = self._by_task(hard_concrete_open(self.log_alpha))
        return p_open if task is None else row(p_open, task)

    def _by_task(self, table: Tensor) -> Tensor:
        """Returns a row for each task, ``[T, C]``."""
        return table.mean(0).expand(self.n_tasks, -1) if self.n_streams else table

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor | None:
        if not self.l0_weight:
            return None
        own = self.log_alpha if self.n_streams else row(self.log_alpha, task)
        return self.l0_weight * hard_concrete_open(own).sum()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, n_streams={self.n_streams}, l0_weight={self.l0_weight}"
