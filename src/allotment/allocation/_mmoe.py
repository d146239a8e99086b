"""Multi-gate mixture of experts: shares for each example, by a gate of each task."""

from torch import Tensor

from ._base import Allocation, row
from ._features import LinearGate


class MMoE(Allocation):
    """Multi-gate mixture of experts: a softmax over components for each task and example.

    Ma et al. 2018, "Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts": each task has a linear gate on the layer's input, and every component is
    an expert. The bias of a gate, which starts at zero, is ours.

    What can be said of a task without examples, in `matrix` and `probabilities`, are its shares
    for an example whose features are all zero: the softmax of its bias. The mean of
    ``weights(task, x)`` over examples tells how much it uses each component on them.

    >>> import torch
    >>> from allotment.allocation import MMoE
    >>> MMoE(n_tasks=2, n_components=3, n_features=8).weights(0, torch.randn(5, 8)).shape
    torch.Size([5, 3])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        n_features: Features, or channels, of the layer's input. Images are averaged over pixels.
    """

    is_binary = False
    sees_examples = True
    axes = (("gate.weight", "T"), ("gate.bias", "T"))

    def __init__(self, n_tasks: int, n_components: int, *, n_features: int) -> None:
        super().__init__(n_tasks, n_components)
        self.gate = LinearGate(n_tasks, n_components, n_features)

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        scores: Tensor = self.gate(task, x)
        return scores.softmax(dim=-1)

    def matrix(self) -> Tensor:
        return self.probabilities().detach()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        bias = self.gate.bias if task is None else row(self.gate.bias, task)
        return bias.softmax(dim=-1)
