"""One component for each task and layer, chosen by a policy that is learnt by reward."""

import torch
from torch import Tensor, nn

from .._checks import check_at_least
from ._base import Allocation, row
from ._baseline import RunningBaseline


class RoutingPolicy(Allocation):
    """A routing network with one agent for each task.

    Rosenbaum, Klinger, Riemer (2018), "Routing Networks: Adaptive Selection of Non-Linear Functions
    for Multi-Task Learning". As published: in each layer a task's own agent, a table of
    preferences, picks one component; components learn by backpropagation and agents by reward.

    Ours: agents follow the plain policy gradient, with a running mean of each task's loss as
    baseline, where the publication does best with its Weighted Policy Learner. The reward is the
    batch's loss with a minus sign, where theirs judges the prediction for each example; and a
    batch, which is of one task, takes one route. There is no reward for agreeing with other
    agents. An agent learns from its task's second batch on.

    A training loop of one's own adds `auxiliary_loss` to the loss, and calls `observe`.

    >>> from allotment.allocation import RoutingPolicy
    >>> RoutingPolicy(n_tasks=2, n_components=3).matrix().sum(1)
    tensor([1., 1.])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        baseline_decay: How much of its mean loss a task keeps in a batch.
        entropy_weight: What a task is paid for the entropy of its policy, so that it goes on
            trying others.
    """

    n_noise = 1
    axes = (("preferences", "TC"), *RunningBaseline.axes)
    preferences: nn.Parameter

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        baseline_decay: float = 0.9,
        entropy_weight: float = 0.0,
    ) -> None:
        super().__init__(n_tasks, n_components)
        check_at_least("entropy_weight", entropy_weight, 0.0)
        self.preferences = nn.Parameter(torch.zeros(n_tasks, n_components))
        self.baseline = RunningBaseline(n_tasks, baseline_decay)
        self.entropy_weight = entropy_weight

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        preferences = row(self.preferences, task).detach()
        if not self.training:
            return _one_hot(
                preferences.argmax(dim=-1, keepdim=True), self.n_components, preferences
            )
        noise = torch.rand_like(preferences[:1]) if noise is None else noise
        # As many whole intervals of the policy as lie below the noise.
        place = (preferences.softmax(dim=-1).cumsum(dim=-1)[:-1] <= noise).sum(dim=-1, keepdim=True)
        return _one_hot(place, self.n_components, preferences)

    def matrix(self) -> Tensor:
        preferences = self.preferences.detach()
        return _one_hot(preferences.argmax(dim=-1, keepdim=True), self.n_components, preferences)

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        preferences = self.preferences if task is None else row(self.preferences, task)
        return preferences.softmax(dim=-1)

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor:
        log_policy = row(self.preferences, task).log_softmax(dim=-1)
        charge = self.baseline.advantage(task, loss) * (weights * log_policy).sum()
        entropy = -(log_policy.exp() * log_policy).sum()
        return charge - self.entropy_weight * entropy

    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        self.baseline.observe(task, loss)

    def extra_repr(self) -> str:
        options = f"baseline_decay={self.baseline.decay}, entropy_weight={self.entropy_weight}"
        return f"{super().extra_repr()}, {options}"


def _one_hot(place: Tensor, n: int, like: Tensor) -> Tensor:
    """Returns rows that are 1 at one place, ``[..., n]``, from places ``[..., 1]``."""
    return (torch.arange(n, device=place.device) == place).to(like.dtype)
