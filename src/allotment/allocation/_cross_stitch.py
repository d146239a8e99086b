"""Columns of tasks, stitched together."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_number
from ._base import row
from ._streams import StreamAllocation


class CrossStitch(StreamAllocation):
    """A column of components for each task, and a learnt mixture of all columns for each.

    Misra, Shrivastava, Gupta and Hebert (2016), "Cross-Stitch Networks for Multi-task Learning".
    As published, the numbers of a mixture are learnt without limits, and start at 0.9 for a task's
    own column and at 0.1 for the other one. Ours: of more than two tasks, the other columns share
    the 0.1 evenly, so that a row still sums to 1.

    In a `ColumnLayer` each task's column reads that task's mixture. In a plain `ModularLayer` it is
    one mixture of components, which all read the same.

    >>> CrossStitch(3, 3).matrix()
    tensor([[0.9000, 0.0500, 0.0500],
            [0.0500, 0.9000, 0.0500],
            [0.0500, 0.0500, 0.9000]])

    Args:
        n_tasks: Number of tasks, and of columns.
        n_components: Number of components in the layer, a multiple of the number of tasks. A
            column is ``C / T`` consecutive ones, averaged.
        own: What a task's own column starts at.
        other: What all other columns start at together.

    Attributes:
        table: How much of each column each task takes, ``[T, T]``.
    """

    is_binary = False
    table: nn.Parameter

    def __init__(
        self, n_tasks: int, n_components: int, *, own: float = 0.9, other: float = 0.1
    ) -> None:
        super().__init__(n_tasks, n_components)
        if n_components % n_tasks:
            raise ValueError(
                "`n_components` should be a multiple of `n_tasks`, so that each task has a column. "
                f"Found {n_components} components for {n_tasks} tasks."
            )
        check_number("own", own)
        check_number("other", other)
        table = torch.full((n_tasks, n_tasks), other / max(n_tasks - 1, 1))
        self.table = nn.Parameter(table.fill_diagonal_(own))
        self.own = own
        self.other = other
        self.n_streams = n_tasks

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return self.probabilities(task)

    def stream_weights(self, streams: Sequence[Any], *, noise: Tensor | None = None) -> Tensor:
        return self.probabilities()

    def matrix(self) -> Tensor:
        return self.probabilities().detach()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        n = self.n_components // self.n_tasks
        table = self.table if task is None else row(self.table, task)
        return table.repeat_interleave(n, dim=-1) / n

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, own={self.own}, other={self.other}"
