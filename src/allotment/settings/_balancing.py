"""How the losses of tasks are weighed against each other: the interface."""

import torch
from torch import Tensor


class LossBalancing:
    """Weighs the losses of tasks, for ``R`` runs at once; losses are reported as they are.

    A step has ``K`` tasks: all of them where the schedule is joint, else one. A subclass writes
    `weights`, from losses, or sets ``needs_gradients`` and writes `combine`, from the gradients of
    all tasks. What it remembers is in tensors that it changes in place, and it computes with
    tensors alone, so that a step can be recorded.
    """

    needs_gradients: bool = False

    def start(self, n_runs: int, n_tasks: int, device: torch.device) -> None:
        """Makes ready for a training; what it remembers begins anew."""

    def weights(self, losses: Tensor, tasks: Tensor) -> Tensor:
        """Returns the weight of each loss, ``[R, K]``, given losses and tasks of that shape.

        Losses are already multiplied by their tasks' own weights.
        """
        return torch.ones_like(losses)

    def combine(self, gradients: Tensor) -> Tensor:
        """Returns the gradient to follow, ``[P]``, given one run's gradients ``[K, P]``."""
        return gradients.mean(dim=0)

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors it remembers, themselves, by name; a checkpoint holds copies."""
        return {}
