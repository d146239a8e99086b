"""Ways of sharing that the library does not have, as anybody might write them."""

import torch
from torch import Tensor, nn

from allotment.allocation import Allocation, row


class ByExample(Allocation):
    """Shares that each example has by its features, and each task by a matrix of its own."""

    is_binary = False
    sees_examples = True

    def __init__(self, n_tasks: int, n_components: int, n_features: int, n_noise: int = 0) -> None:
        super().__init__(n_tasks, n_components)
        self.router = nn.Parameter(torch.randn(n_tasks, n_features, n_components))
        self.n_noise = n_noise

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        assert x is not None
        scores = x.flatten(1) @ row(self.router, task)  # [B, C]
        if self.n_noise and noise is not None:
            scores = scores + noise
        return scores.softmax(-1)

    def matrix(self) -> Tensor:
        return self.probabilities()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        shape = (self.n_tasks, self.n_components) if task is None else (self.n_components,)
        return self.router.new_full(shape, 1 / self.n_components)


class TopOne(ByExample):
    """The component with the highest score, alone."""

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        shares = super().weights(task, x, noise=noise)
        chosen = shares.argmax(-1, keepdim=True)
        return torch.zeros_like(shares).scatter(-1, chosen, 1.0)


class Shares(Allocation):
    """Learnt shares of each task, which sum to one; it counts batches and charges for them."""

    is_binary = False

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__(n_tasks, n_components, counts_batches=True)
        self.scores = nn.Parameter(torch.randn(n_tasks, n_components))

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return row(self.scores, task).softmax(-1)

    def matrix(self) -> Tensor:
        return self.probabilities().detach()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        return (self.scores if task is None else row(self.scores, task)).softmax(-1)

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor | None:
        return weights.square().sum()
