"""Gates that are learnt and then settle for good: the way of sharing to begin with."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .._checks import check_at_least, check_fraction
from ._base import row
from ._gumbel import Annealing, GumbelMatrix, open_advantage, uniform_like

_NEVER = torch.iinfo(torch.int64).max


class SettlingMatrix(GumbelMatrix):
    """Gumbel-Matrix whose gates stand still for the last part of a training.

    Ours. Gates that are drawn to the end leave components that fit none of them quite: each was
    trained among draws, and is used with others. Here gates are learnt by `GumbelMatrix`, and for
    the last ``settle`` of all batches they are what evaluation uses, and components and heads go
    on to learn with that.

    How many batches there will be `fit`, `train` and the Lightning module tell it; in a loop of
    one's own ``expect`` is to be called, or gates never settle.

    >>> from allotment.allocation import SettlingMatrix
    >>> allocation = SettlingMatrix(2, 3)
    >>> allocation.expect(300)  # batches; `fit` tells it by itself
    >>> allocation.matrix()[0]
    tensor([1., 1., 1.])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        p_init: Probability of each gate to be open at the start, one number or ``[T, C]``.
        temperature: The temperature as a function of the number of training batches.
        settle: The share of batches, at the end, in which gates stand still.
        pull: What is added to the loss for each nat that a task's gates are away from ``p_init``
            (the Kullback-Leibler divergence, summed over the layer's gates).
    """

    axes = (("logits", "TC"), ("settled", "TC"), ("start", "TC"))
    settles_at: Tensor  # after so many batches
    settled: Tensor  # the logits from then on, [T, C, 2]
    start: Tensor  # the logits at the start, [T, C]

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        p_init: float | Tensor | Sequence[Sequence[float]] = 0.5,
        temperature: Annealing = Annealing(),
        settle: float = 1 / 3,
        pull: float = 0.0,
    ) -> None:
        super().__init__(n_tasks, n_components, p_init=p_init, temperature=temperature)
        check_fraction("settle", settle)
        check_at_least("pull", pull, 0.0)
        self.settle, self.pull = settle, pull
        self.register_buffer("settles_at", torch.tensor(_NEVER))
        self.register_buffer("settled", self.logits.detach().clone())
        self.register_buffer("start", open_advantage(self.logits.detach()).clone())

    @torch.no_grad()
    def expect(self, n_batches: int) -> None:
        """Is told, before the first, how many training batches there will be.

        `fit`, `train` and the Lightning module call it. In a loop of one's own it is to be called,
        with the batches of all tasks counted: gates settle after the first ``1 - settle`` of them,
        and never where nothing was expected.
        """
        if self._is_settled():
            self.logits.copy_(self.settled)  # they go on to learn from there
        self.settled.copy_(self.logits)  # with `settle=1` no batch passes before they settle
        self.settles_at.copy_(self.n_batches + n_batches - round(self.settle * n_batches))

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return super().weights(task, noise=self._quieted(noise))

    def _quieted(self, noise: Tensor | None) -> Tensor | None:
        """Returns the draws of a training pass; settled gates have those that change nothing."""
        if not self.training:
            return noise
        if noise is None:
            noise = uniform_like(self.start[0])
        return torch.where(self._is_settled(), 0.5, noise)

    def _is_settled(self) -> Tensor:
        assert self.n_batches is not None
        return self.n_batches >= self.settles_at

    def _table(self) -> Tensor:
        return torch.where(self._is_settled(), self.settled, self.logits)

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor | None:
        if not self.pull:
            return None
        advantage = open_advantage(row(self._table(), task))
        return self.pull * _divergence(advantage, row(self.start, task)).sum()

    def advance(self) -> None:
        """Takes note that a batch has passed, and of the gates where they settle."""
        super().advance()
        assert self.n_batches is not None
        is_now = self.n_batches == self.settles_at
        self.settled = torch.where(is_now, self.logits.detach(), self.settled)


def _divergence(advantage: Tensor, start: Tensor) -> Tensor:
    """Returns how far gates are from others, in nats, given the logits of both."""
    p = torch.sigmoid(advantage)
    log_open = F.logsigmoid(advantage) - F.logsigmoid(start)
    log_shut = F.logsigmoid(-advantage) - F.logsigmoid(-start)
    return p * log_open + (1 - p) * log_shut


def recommended(n_tasks: int, n_components: int) -> SettlingMatrix:
    """Returns the allocation to begin with: gates that are learnt, and stand still at the end.

    It is `SettlingMatrix` with its defaults: Gumbel-Matrix, the paper's allocation, whose gates are
    what evaluation uses for the last third of a training, where the paper's are drawn to the end.

    It rests on experiments with one change of the training of gates for each cause that they may
    lose by, compared on validation (``allotment run causes``). To end the noise was the one that
    helped on more than one suite; gates learnt on held-out batches, later or more slowly, or opened
    at the end, and a start that shares more, did not. What it reaches on tests, with seeds that no
    choice saw, beside a shared bottom and no sharing (``allotment run remedy``) is in
    ``docs/when.md``, and so is where it is no better than these.

    A class, such as `GumbelMatrix`, and this function can stand for each other, as in
    ``modularize(model, parts, allocation=recommended)``.

    >>> from allotment import recommended
    >>> recommended(n_tasks=2, n_components=3).probabilities(0)
    tensor([0.5000, 0.5000, 0.5000], grad_fn=<SigmoidBackward0>)

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
    """
    return SettlingMatrix(n_tasks, n_components)
