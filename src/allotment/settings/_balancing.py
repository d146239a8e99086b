"""How the losses of tasks are weighed against each other: the interface, and two of them."""

import torch
from torch import Tensor

from .._checks import check_at_least, check_positive


class LossBalancing:
    """Weighs the losses of tasks, for ``R`` runs at once; losses are reported as they are.

    A step has ``K`` tasks: all of them where the schedule is joint, else one. A subclass writes
    `weights`, from losses, or sets ``needs_gradients`` and writes `combine`, from the gradients of
    all tasks. What it remembers is in tensors that it changes in place, and it computes with
    tensors alone, so that a step can be recorded.

    >>> import torch
    >>> import allotment as al
    >>> class Inverse(al.LossBalancing):
    ...     def weights(self, losses, tasks):
    ...         return 1 / losses
    >>> Inverse().weights(torch.tensor([[2.0, 4.0]]), torch.tensor([[0, 1]]))
    tensor([[0.5000, 0.2500]])
    >>> settings = al.TrainingSettings(loss_balancing=Inverse())
    """

    needs_gradients: bool = False

    def _chosen(self) -> dict[str, object]:
        """Returns what it was made with; tensors are what it remembers."""
        return {name: v for name, v in vars(self).items() if not isinstance(v, Tensor)}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._chosen() == other._chosen()

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}={value!r}" for name, value in self._chosen().items())
        return f"{type(self).__name__}({chosen})"

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


class UncertaintyWeighting(LossBalancing):
    """Divides each loss by a variance that is learnt (Kendall, Gal and Cipolla, 2018).

    The logarithms ``s`` of the variances descend on ``exp(-s) * loss + s``, one step with each
    batch of their task, so that a weight goes to 1 / loss. Ours: a step is at most
    ``learning_rate``, so that one large loss does not silence its task.

    >>> import allotment as al
    >>> from allotment.settings import UncertaintyWeighting
    >>> settings = al.TrainingSettings(loss_balancing=UncertaintyWeighting())

    Args:
        learning_rate: Of the variances.
    """

    log_variances: Tensor  # [R, T]

    def __init__(self, learning_rate: float = 0.02) -> None:
        check_positive("learning_rate", learning_rate)
        self.learning_rate = learning_rate

    def start(self, n_runs: int, n_tasks: int, device: torch.device) -> None:
        self.log_variances = torch.zeros(n_runs, n_tasks, device=device)

    def weights(self, losses: Tensor, tasks: Tensor) -> Tensor:
        before = self.log_variances.gather(1, tasks)
        weights = torch.exp(-before)
        gradients = (1 - weights * losses).clamp_min(-1.0)  # at most 1 where losses are positive
        self.log_variances.scatter_(1, tasks, before - self.learning_rate * gradients)
        return weights

    def state(self) -> dict[str, Tensor]:
        return {"log_variances": self.log_variances}


class DynamicWeightAverage(LossBalancing):
    """Gives more weight to losses that fall more slowly (Liu, Johns and Davison, 2019).

    Weights are ``T * softmax(ratios / temperature)``. A ratio is a task's mean loss over the last
    ``n_batches`` of its batches, in place of an epoch, over that of as many before; 1 at first.

    >>> import allotment as al
    >>> from allotment.settings import DynamicWeightAverage
    >>> settings = al.TrainingSettings(loss_balancing=DynamicWeightAverage(n_batches=20))

    Args:
        n_batches: Over how many batches of a task its loss is averaged, to be compared.
        temperature: The higher, the more alike the weights are.
    """

    means: Tensor  # [3, R, T]: of the batches under way (their sum), the last ones, those before
    counts: Tensor  # [R, T]

    def __init__(self, n_batches: int = 50, temperature: float = 2.0) -> None:
        check_at_least("n_batches", n_batches, 1)
        check_positive("temperature", temperature)
        self.n_batches, self.temperature = n_batches, temperature

    def start(self, n_runs: int, n_tasks: int, device: torch.device) -> None:
        self.counts = torch.zeros(n_runs, n_tasks, device=device)
        self.means = torch.zeros(3, n_runs, n_tasks, device=device)

    def weights(self, losses: Tensor, tasks: Tensor) -> Tensor:
        _, last, before = self.means
        ratios = torch.where(before > 0, last / before.clamp_min(1e-30), 1.0)
        weights = ratios.shape[1] * torch.softmax(ratios / self.temperature, dim=1)  # [R, T]
        sums = self.means[0].scatter_add(1, tasks, losses)
        counts = self.counts.scatter_add(1, tasks, torch.ones_like(losses))
        is_over = (counts >= self.n_batches).all(dim=1, keepdim=True)  # [R, 1]
        moved = torch.stack([torch.zeros_like(sums), sums / counts.clamp_min(1), last])
        self.means.copy_(torch.where(is_over, moved, torch.stack([sums, last, before])))
        self.counts.copy_(torch.where(is_over, 0.0, counts))
        return weights.gather(1, tasks)

    def state(self) -> dict[str, Tensor]:
        return {"means": self.means, "counts": self.counts}
