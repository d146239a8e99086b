"""Gates that are never drawn: soft in training, open or shut in evaluation."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._checks import check_choice
from ._base import Allocation, row
from ._bernoulli import likely
from ._gumbel import averaged, keep_one, prior


class SoftMatrix(Allocation):
    """Soft gates that become binary in evaluation.

    Liu, Simonyan, Yang (2019), "DARTS: Differentiable Architecture Search". As published is the
    relaxation: a weighted mean of all components, whose weights are learnt by gradient descent
    with no draws, and are made discrete at the end. Ours are sigmoid gates in place of a softmax,
    so that a task may use several components: weights are ``p / sum(p)``. This is their
    first-order version on one set of examples. Learning gates on other examples than components
    is a matter of training, not of the allocation.

    All gates of a task start alike, as in the publication. With no noise this is sound as long as
    components start with different weights. Exact copies would stay copies; then ``p_init`` should
    start their gates apart.

    >>> from allotment.allocation import SoftMatrix
    >>> SoftMatrix(2, 3, p_init=[[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]).weights(0).detach()
    tensor([0.8000, 0.1000, 0.1000])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        p_init: Softness of each gate at the start, one number or ``[T, C]``.
        evaluation: ``"most_likely"`` averages the components whose gate is at least 0.5. Where a
            task has none, it keeps that of its largest gate, since training has no task without
            components. ``"soft"`` keeps the weights of training; then nothing is binary, and
            matrix and probabilities are these weights.
    """

    axes = (("logits", "TC"),)
    logits: nn.Parameter

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        p_init: float | Tensor | Sequence[Sequence[float]] = 0.5,
        evaluation: str = "most_likely",
    ) -> None:
        super().__init__(n_tasks, n_components)
        check_choice("evaluation", evaluation, ["most_likely", "soft"])
        self.logits = nn.Parameter(torch.logit(prior(p_init, n_tasks, n_components)))
        self.evaluation = evaluation
        self.is_binary = evaluation == "most_likely"

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        logits = row(self.logits, task)
        return shares(logits) if self.training or not self.is_binary else averaged(opened(logits))

    def matrix(self) -> Tensor:
        logits = self.logits.detach()
        return opened(logits) if self.is_binary else shares(logits)

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        logits = self.logits if task is None else row(self.logits, task)
        return torch.sigmoid(logits) if self.is_binary else shares(logits)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, evaluation={self.evaluation!r}"


def shares(logits: Tensor) -> Tensor:
    """Returns soft gates over their sum, which is 1 for each task."""
    # The logarithms, so that gates which are all but shut still have a sum to be divided by.
    return torch.softmax(F.logsigmoid(logits), dim=-1)


def opened(logits: Tensor) -> Tensor:
    """Returns the gates of evaluation, each 0 or 1: one or more are open for each task."""
    return keep_one(likely(logits), logits)
