"""What losses are compared with, where gates are learnt by reward."""

import torch
from torch import Tensor, nn

from .._checks import check_probability
from ._base import row


class RunningBaseline(nn.Module):
    """An exponential mean of each task's losses, so that a reward is told from a usual one.

    It depends on earlier batches alone. So it changes how much the score-function gradient varies
    and leaves its mean as it is.

    Args:
        n_tasks: Number of tasks.
        decay: How much of the mean a batch leaves, strictly between 0 and 1.
    """

    axes = (("baseline.mean", "T"), ("baseline.n_seen", "T"))  # of an allocation that has it
    mean: Tensor  # [T]
    n_seen: Tensor  # [T]

    def __init__(self, n_tasks: int, decay: float) -> None:
        super().__init__()
        check_probability("baseline_decay", decay)
        self.decay = decay
        self.register_buffer("mean", torch.zeros(n_tasks))
        self.register_buffer("n_seen", torch.zeros(n_tasks, dtype=torch.int64))

    def advantage(self, task: int | Tensor, loss: Tensor) -> Tensor:
        """Returns how far a loss is above the mean, without a gradient.

        It is 0 in a task's first batch, which has nothing to be compared with.
        """
        loss = loss.detach()
        return torch.where(row(self.n_seen, task) > 0, loss - row(self.mean, task), 0.0)

    @torch.no_grad()
    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        """Takes in the loss of a batch; the first of a task is its mean."""
        is_own = torch.arange(len(self.mean), device=self.mean.device) == task
        moved = torch.where(
            self.n_seen > 0, self.mean.lerp(loss.to(self.mean), 1 - self.decay), loss
        )
        self.mean.copy_(torch.where(is_own, moved, self.mean))
        self.n_seen.add_(is_own)
