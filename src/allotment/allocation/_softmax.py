"""Learnt shares of each task: a softmax over components."""

import torch
from torch import Tensor, nn

from ._base import Allocation, row


class SoftmaxMatrix(Allocation):
    """Shares of components that each task learns, by a softmax over its row of logits.

    These are the scaling factors of soft ordering (Meyerson and Miikkulainen 2018, "Beyond Shared
    Hierarchies: Deep Multitask Learning through Soft Layer Ordering"), which start equal. Soft
    ordering itself has the same components at every depth; here they may be any layer's.

    >>> SoftmaxMatrix(2, 4).matrix()
    tensor([[0.2500, 0.2500, 0.2500, 0.2500],
            [0.2500, 0.2500, 0.2500, 0.2500]])

    Equal shares tell components apart only where these start from different weights, as they do
    unless one says otherwise.

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
    """

    is_binary = False
    axes = (("logits", "TC"),)
    logits: nn.Parameter

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__(n_tasks, n_components)
        self.logits = nn.Parameter(torch.zeros(n_tasks, n_components))

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return self.probabilities(task)

    def matrix(self) -> Tensor:
        return self.probabilities().detach()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        logits = self.logits if task is None else row(self.logits, task)
        return logits.softmax(dim=-1)
