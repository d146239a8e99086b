"""Gates of L0 regularisation: drawn between 0 and 1, and often exactly 0 or exactly 1."""

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor, nn

from .._checks import check_at_least, check_choice
from ._base import Allocation, row
from ._fixed import REDUCTIONS
from ._gumbel import averaged, prior, uniform_like

# The values of Louizos, Welling and Kingma (2018), Section 4.1.
LOWER, UPPER = -0.1, 1.1
TEMPERATURE = 2 / 3
_OFFSET = TEMPERATURE * log(-LOWER / UPPER)  # a draw of this log-odds is as often shut as open


def hard_concrete(log_alpha: Tensor, noise: Tensor) -> Tensor:
    """Returns one draw of each gate, from 0 to 1, of the shape of ``log_alpha``.

    ``noise`` is uniform on (0, 1). It is drawn, and never learnt.

    >>> import torch
    >>> hard_concrete(torch.zeros(3), torch.tensor([0.05, 0.5, 0.95]))
    tensor([0.0000, 0.5000, 1.0000])

    Args:
        log_alpha: The location of each gate.
        noise: Uniform on (0, 1), of the same shape.
    """
    logistic = torch.log(noise) - torch.log1p(-noise)
    return _stretched(torch.sigmoid((logistic + log_alpha) / TEMPERATURE))


def hard_concrete_open(log_alpha: Tensor) -> Tensor:
    """Returns the probability of each gate to be above 0.

    >>> import torch
    >>> hard_concrete_open(torch.tensor([-9.0, 0.0, 9.0])).round(decimals=2)
    tensor([0.0000, 0.8300, 1.0000])

    Args:
        log_alpha: The location of each gate.
    """
    return torch.sigmoid(log_alpha - _OFFSET)


def hard_concrete_mean(log_alpha: Tensor) -> Tensor:
    """Returns each gate of evaluation: the published estimate of its mean, not the exact one.

    >>> import torch
    >>> hard_concrete_mean(torch.tensor([-9.0, 0.0, 9.0]))
    tensor([0.0000, 0.5000, 1.0000])

    Args:
        log_alpha: The location of each gate.
    """
    return _stretched(torch.sigmoid(log_alpha))


def _stretched(share: Tensor) -> Tensor:
    """Returns numbers from (0, 1) stretched beyond both ends, and cut there."""
    return (share * (UPPER - LOWER) + LOWER).clamp(0.0, 1.0)


class HardConcreteMatrix(Allocation):
    """Hard concrete gates, as in L0 regularisation.

    Louizos, Welling, Kingma (2018), "Learning Sparse Neural Networks through L0 Regularization".
    As published are the draw, its limits and temperature, the gate of evaluation, and the charge
    for the expected number of open gates. Ours is one gate for each task and component, where the
    publication has one for each weight or unit, and how gates become weights: by default each is
    divided by their sum, where that is above 1, as open gates of a `GumbelMatrix` are averaged.

    In evaluation a gate that is open less often than about three times in ten is shut. The others
    are shares, so the allocation is not binary; `probabilities` are still those to be open.

    >>> from allotment.allocation import HardConcreteMatrix
    >>> HardConcreteMatrix(n_tasks=2, n_components=3, p_init=0.99).matrix()
    tensor([[1., 1., 1.],
            [1., 1., 1.]])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        p_init: Probability of each gate to be open at the start, one number or ``[T, C]``.
        l0_weight: What an open gate costs: the expected number of the task's open gates, times
            this, is added to the loss of each batch.
        reduce: ``"mean"`` divides gates by their sum or by 1, whichever is larger; ``"sum"`` takes
            them as weights.
    """

    is_binary = False
    axes = (("log_alpha", "TC"),)
    log_alpha: nn.Parameter

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        p_init: float | Tensor | Sequence[Sequence[float]] = 0.5,
        l0_weight: float = 0.0,
        reduce: str = "mean",
    ) -> None:
        super().__init__(n_tasks, n_components)
        check_at_least("l0_weight", l0_weight, 0.0)
        check_choice("reduce", reduce, REDUCTIONS)
        p_open = prior(p_init, n_tasks, n_components)
        self.log_alpha = nn.Parameter(torch.logit(p_open) + _OFFSET)
        self.l0_weight = l0_weight
        self.reduce = reduce
        self.n_noise = n_components

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        gates = self.gates(task, noise=noise)
        return averaged(gates) if self.reduce == "mean" else gates

    def gates(self, task: int | Tensor, *, noise: Tensor | None = None) -> Tensor:
        """Returns the gates of one pass, each from 0 to 1, shape ``[C]``."""
        log_alpha = row(self.log_alpha, task)
        if not self.training:
            return hard_concrete_mean(log_alpha)
        return hard_concrete(log_alpha, uniform_like(log_alpha) if noise is None else noise)

    def new_row(self, name: str, table: Tensor) -> Tensor:
        return torch.full_like(table[0], _OFFSET)

    def matrix(self) -> Tensor:
        return hard_concrete_mean(self.log_alpha.detach())

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        return hard_concrete_open(self.log_alpha if task is None else row(self.log_alpha, task))

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor | None:
        return self.l0_weight * self.probabilities(task).sum() if self.l0_weight else None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, l0_weight={self.l0_weight}, reduce={self.reduce!r}"
