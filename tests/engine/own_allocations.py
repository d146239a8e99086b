"""Ways of sharing that the library does not have, each written as a user would."""

import torch
from torch import Tensor, nn

from allotment.allocation import Allocation, row


class GatesByExample(Allocation):
    """Binary gates that a router opens for each example, with noise for each."""

    sees_examples = True

    def __init__(self, n_tasks: int, n_components: int, width: int) -> None:
        super().__init__(n_tasks, n_components)
        self.router = nn.Sequential(nn.Linear(width, 5), nn.Tanh(), nn.Linear(5, n_components))
        self.offsets = nn.Parameter(torch.randn(n_tasks, n_components))
        self.n_noise = n_components

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        assert x is not None
        advantage = self.router(x) + row(self.offsets, task)  # [B, C]
        if not self.training:
            gates = (advantage >= 0).to(advantage.dtype)
        else:
            if noise is None:
                noise = torch.rand_like(advantage).clamp_min(1e-30)
            noisy = advantage + torch.log(noise) - torch.log1p(-noise)
            soft = torch.sigmoid(noisy)
            gates = (noisy >= 0).to(soft.dtype) + (soft - soft.detach())
        weights: Tensor = gates / gates.sum(dim=-1, keepdim=True).clamp_min(1.0)
        return weights

    def matrix(self) -> Tensor:
        return (self.offsets.detach() >= 0).to(self.offsets.dtype)

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        return torch.sigmoid(self.offsets if task is None else row(self.offsets, task))


class _Shares(Allocation):
    """Shares of components that sum to 1; a subclass says from which scores, ``[T, C]``."""

    is_binary = False

    def scores(self) -> Tensor:
        raise NotImplementedError

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return self.probabilities(task)

    def matrix(self) -> Tensor:
        return self.probabilities().detach()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        shares = self.scores().softmax(dim=-1)
        return shares if task is None else row(shares, task)


class SoftMixture(_Shares):
    """Shares from a table of scores."""

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__(n_tasks, n_components)
        self.table = nn.Parameter(torch.randn(n_tasks, n_components))

    def scores(self) -> Tensor:
        return self.table


class Routed(_Shares):
    """Shares from an embedding of the task, by a router of several layers."""

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__(n_tasks, n_components)
        self.embeddings = nn.Embedding(n_tasks, 3)
        self.router = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, n_components))

    def scores(self) -> Tensor:
        scores: Tensor = self.router(self.embeddings.weight)
        return scores


class LoadBalanced(_Shares):
    """Shares with a charge for uneven ones, which grows with the loss."""

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__(n_tasks, n_components)
        self.table = nn.Parameter(torch.randn(n_tasks, n_components))

    def scores(self) -> Tensor:
        return self.table

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor:
        return 0.3 * weights.square().sum() * (1 + loss.detach())


class Baselined(_Shares):
    """Shares whose sharpness follows a running mean, which moves with every batch."""

    baseline: Tensor

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__(n_tasks, n_components, counts_batches=True)
        self.table = nn.Parameter(torch.randn(n_tasks, n_components))
        self.register_buffer("baseline", torch.zeros(()))

    def scores(self) -> Tensor:
        return self.table * (1 + self.baseline)

    def advance(self) -> None:
        super().advance()
        with torch.no_grad():
            self.baseline.lerp_(self.table.abs().mean(), 0.1)


class Rewarded(_Shares):
    """Shares that are the sharper the larger the running mean of a task's loss."""

    means: Tensor

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__(n_tasks, n_components, counts_batches=True)
        self.table = nn.Parameter(torch.randn(n_tasks, n_components))
        self.register_buffer("means", torch.ones(n_tasks))

    def scores(self) -> Tensor:
        return self.table * self.means.unsqueeze(1).log1p()

    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        assert self.n_batches is not None
        is_own = torch.arange(self.n_tasks, device=self.means.device) == task
        share = 1 / (2.0 + self.n_batches)
        self.means = torch.where(is_own, self.means.lerp(loss.detach(), share), self.means)


class ToldEach(_Shares):
    """Shares that hear the loss of each example, and keep it beside that of the batch."""

    rewards_examples = True

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__(n_tasks, n_components)
        self.table = nn.Parameter(torch.randn(n_tasks, n_components))
        self.each: list[Tensor] = []  # of each batch, in their order
        self.losses: list[Tensor] = []

    def scores(self) -> Tensor:
        return self.table

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> None:
        self.each.append(loss.detach().clone())

    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        self.losses.append(loss.detach().clone())

    def __deepcopy__(self, memo: object) -> "ToldEach":
        return self  # what is heard is heard by the one that was handed in


class Hardening(_Shares):
    """Shares that grow sharper every ten batches, by an `advance` that looks at values."""

    sharpness: Tensor

    def __init__(self, n_tasks: int, n_components: int) -> None:
        super().__init__(n_tasks, n_components, counts_batches=True)
        self.table = nn.Parameter(torch.randn(n_tasks, n_components))
        self.register_buffer("sharpness", torch.ones(n_tasks, 1))

    def scores(self) -> Tensor:
        return self.table * self.sharpness

    def advance(self) -> None:
        super().advance()
        assert self.n_batches is not None
        if int(self.n_batches) % 10 == 0:
            self.sharpness = self.sharpness * 1.1  # assigned anew, not changed in place
