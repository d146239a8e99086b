"""Allocations decided by hand, which stay as they are."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .._checks import check_choice
from ._base import Allocation, check_counts, row

REDUCTIONS = ("sum", "mean")


class _Table(Allocation):
    """An allocation whose weights stand in a table, shape ``[T, C]``.

    Tables differ in their numbers only, so runs with different ones can be computed together.
    """

    axes = (("table", "TC"),)
    table: Tensor
    batched_as = "table"

    def __init__(self, matrix: Tensor, reduce: str) -> None:
        super().__init__(*matrix.shape)
        check_choice("reduce", reduce, REDUCTIONS)
        counts = matrix.sum(dim=1, keepdim=True).clamp_min(1.0)
        self.register_buffer("table", matrix / counts if reduce == "mean" else matrix)

    def new_row(self, name: str, table: Tensor) -> Tensor:
        """Returns the row that all tasks have, as where everything is shared."""
        if not (table == table[0]).all():
            raise ValueError(
                "`like` should be a task where allocations are decided by hand, and tasks differ. "
                "Found `like = None`."
            )
        return table[0]

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return row(self.table, task)

    def matrix(self) -> Tensor:
        return self.probabilities()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        table = self.table if task is None else row(self.table, task)
        return (table != 0).to(table.dtype)


class FixedMatrix(_Table):
    """A binary matrix, shape ``[T, C]``, chosen by hand; used components are averaged.

    >>> from allotment.allocation import FixedMatrix
    >>> FixedMatrix([[1, 1, 0], [0, 1, 1]]).weights(0)
    tensor([0.5000, 0.5000, 0.0000])

    Args:
        matrix: Which task uses which component, ``[T, C]``.
        reduce: ``"mean"`` averages the components in use, ``"sum"`` adds them up.
    """

    def __init__(self, matrix: Tensor | Sequence[Sequence[int]], *, reduce: str = "mean") -> None:
        try:
            table = torch.as_tensor(matrix).detach().to(torch.get_default_dtype())
        except (RuntimeError, TypeError, ValueError) as error:  # unequal rows, or no numbers
            raise ValueError(
                "`matrix` should be of shape [T, C] with entries 0 and 1. "
                f"Found `matrix = {matrix!r}`."
            ) from error
        if table.ndim != 2 or not ((table == 0) | (table == 1)).all():
            raise ValueError(
                "`matrix` should be of shape [T, C] with entries 0 and 1. "
                f"Found shape {list(table.shape)} with entries {table.unique().tolist()}."
            )
        super().__init__(table, reduce)


class SharedBottom(_Table):
    """Every task uses every component (paper, Section II).

    The authors' code sums the components; the paper says averaged for its first network.

    >>> from allotment.allocation import SharedBottom
    >>> SharedBottom(2, 4).weights(0), SharedBottom(2, 4, reduce="mean").weights(0)
    (tensor([1., 1., 1., 1.]), tensor([0.2500, 0.2500, 0.2500, 0.2500]))

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        reduce: ``"sum"`` adds the components up, ``"mean"`` averages them.
    """

    def __init__(self, n_tasks: int, n_components: int, *, reduce: str = "sum") -> None:
        check_counts(n_tasks, n_components)
        super().__init__(torch.ones(n_tasks, n_components), reduce)


class NoSharing(_Table):
    """Each task has its own components: ``C / T`` consecutive ones (paper, Section II).

    >>> from allotment.allocation import NoSharing
    >>> NoSharing(n_tasks=2, n_components=4).matrix()
    tensor([[1., 1., 0., 0.],
            [0., 0., 1., 1.]])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer, a multiple of ``n_tasks``.
        reduce: ``"mean"`` averages the components in use, ``"sum"`` adds them up.
    """

    def __init__(self, n_tasks: int, n_components: int, *, reduce: str = "mean") -> None:
        check_counts(n_tasks, n_components)
        if n_components % n_tasks:
            raise ValueError(
                "`n_components` should be a multiple of `n_tasks` when nothing is shared. "
                f"Found {n_components} components for {n_tasks} tasks."
            )
        own = torch.eye(n_tasks).repeat_interleave(n_components // n_tasks, dim=1)
        super().__init__(own, reduce)
