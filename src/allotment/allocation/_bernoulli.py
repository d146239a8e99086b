"""Gates that are open with a probability each: what the methods to learn them share."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._base import Allocation, row
from ._gumbel import averaged, keep_one, prior


class GateTable(Allocation):
    """A logit for each gate, shape ``[T, C]``; a subclass says how gates are drawn and learnt.

    In evaluation a gate is open where that is at least as likely as shut; open ones are averaged.
    With ``keeps_one`` the most likely gate opens where all are shut.
    """

    axes: tuple[tuple[str, str], ...] = (("logits", "TC"),)
    logits: nn.Parameter

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        p_init: float | Tensor | Sequence[Sequence[float]] = 0.5,
        keeps_one: bool = False,
    ) -> None:
        super().__init__(n_tasks, n_components)
        self.logits = nn.Parameter(torch.logit(prior(p_init, n_tasks, n_components)))
        self.keeps_one = keeps_one
        self.n_noise = n_components

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        logits = row(self.logits, task)
        if self.training:
            return self.training_weights(logits, noise)
        return averaged(self.kept(likely(logits), logits))

    def kept(self, gates: Tensor, logits: Tensor) -> Tensor:
        """Returns gates, of which one at least is open where that is asked for."""
        return keep_one(gates, logits) if self.keeps_one else gates

    @abstractmethod
    def training_weights(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        """Returns the weights of a training pass, ``[C]``, from the logits of its task."""

    def matrix(self) -> Tensor:
        logits = self.logits.detach()
        return self.kept(likely(logits), logits)

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        return torch.sigmoid(self.logits if task is None else row(self.logits, task))


class GatesByExample(Allocation):
    """Gates of each example, beside an offset of each task; a subclass says how both are learnt.

    Without an example, the gates are those of the offsets, shape ``[T, C]``, alone.
    """

    sees_examples = True
    axes: tuple[tuple[str, str], ...] = (("offsets", "T"),)
    offsets: nn.Parameter

    def matrix(self) -> Tensor:
        return likely(self.offsets.detach())

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        return torch.sigmoid(self.offsets if task is None else row(self.offsets, task))


def drawn(logits: Tensor, noise: Tensor | None) -> Tensor:
    """Returns gates that are open with these log-odds, each 0 or 1, without a gradient.

    A gate opens where its noise is above the probability to be shut, as in `GumbelMatrix`: with
    the same noise both open the same gates.
    """
    noise = torch.rand_like(logits) if noise is None else noise
    return (noise > torch.sigmoid(-logits.detach())).to(logits.dtype)


def likely(logits: Tensor) -> Tensor:
    """Returns the most likely gates, each 0 or 1."""
    return (logits >= 0).to(logits.dtype)


def log_likelihood(logits: Tensor, gates: Tensor) -> Tensor:
    """Returns the logarithm of the probability of drawing just these gates: a number for each row.

    >>> log_likelihood(torch.zeros(2, 3), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])).exp()
    tensor([0.1250, 0.1250])
    """
    return F.logsigmoid(torch.where(gates != 0, logits, -logits)).sum(dim=-1)
