"""Customized gate control: each task mixes its own components and the shared ones."""

import torch
from torch import Tensor

from .._checks import check_whole
from ._base import Allocation, check_counts, row
from ._features import LinearGate


class CGC(Allocation):
    """Customized gate control: a softmax, for each task and example, over its own and the shared.

    The gate of progressive layered extraction (Tang et al. 2020, "Progressive Layered Extraction
    (PLE): A Novel Multi-Task Learning (MTL) Model for Personalized Recommendations"). A plain
    layer with it is PLE of one level, which the authors call CGC. The components of other tasks
    have a weight of exactly zero. The bias of a gate, which starts at zero, is ours.

    Components stand in this order: those of the first task, of the second, and so on, then the
    shared ones.

    `matrix` and `probabilities` are the shares for an example whose features are all zero: the
    softmax of the bias over what the task may use.

    >>> import torch
    >>> from allotment.allocation import CGC
    >>> CGC(2, 3, n_features=8, n_shared=1).weights(0, torch.zeros(1, 8)).detach()
    tensor([[0.5000, 0.0000, 0.5000]])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer, own and shared.
        n_features: Features, or channels, of the layer's input. Images are averaged over pixels.
        n_shared: How many components all tasks share. The rest is divided evenly among tasks.

    Attributes:
        allowed: Whether a task may use a component, ``[T, C]``.
    """

    is_binary = False
    sees_examples = True
    axes = (("allowed", "T"), ("gate.weight", "T"), ("gate.bias", "T"))
    allowed: Tensor

    def __init__(
        self, n_tasks: int, n_components: int, *, n_features: int, n_shared: int = 1
    ) -> None:
        super().__init__(n_tasks, n_components)
        self.n_shared = n_shared
        self.register_buffer("allowed", own_or_shared(n_tasks, n_components, n_shared))
        self.gate = LinearGate(n_tasks, n_components, n_features)

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return _softmax_over(row(self.allowed, task), self.gate(task, x))

    def matrix(self) -> Tensor:
        return self.probabilities().detach()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        if task is None:
            return _softmax_over(self.allowed, self.gate.bias)
        return _softmax_over(row(self.allowed, task), row(self.gate.bias, task))

    def new_row(self, name: str, table: Tensor) -> Tensor:
        """Returns a row for the shared components alone: a new task has none of its own."""
        if name != "allowed":
            return super().new_row(name, table)
        if not self.n_shared:
            raise ValueError(
                "`like` should be a task where CGC has no shared components, since a new task has "
                "none of its own. Found `like = None`."
            )
        return torch.arange(self.n_components, device=table.device) >= (
            self.n_components - self.n_shared
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, n_shared={self.n_shared}"


def own_or_shared(n_tasks: int, n_components: int, n_shared: int) -> Tensor:
    """Returns which components each task may use, ``[T, C]``: its own first, the shared last."""
    check_counts(n_tasks, n_components)
    check_whole("n_shared", n_shared)
    n_own, rest = divmod(n_components - n_shared, n_tasks)
    if n_shared < 0 or n_own < 0 or rest or n_own + n_shared == 0:
        raise ValueError(
            "`n_components - n_shared` components should be divided evenly among tasks, and each "
            f"task should have one. Found `n_components = {n_components}` and "
            f"`n_shared = {n_shared}` for {n_tasks} tasks."
        )
    own = torch.eye(n_tasks, dtype=torch.bool).repeat_interleave(n_own, dim=1)
    return torch.cat([own, torch.ones(n_tasks, n_shared, dtype=torch.bool)], dim=1)


def _softmax_over(allowed: Tensor, scores: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
