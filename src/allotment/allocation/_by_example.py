"""Binary gates that each example opens for itself, learnt by straight-through Gumbel-Softmax."""

import torch
from torch import Tensor, nn

from .._checks import check_at_least, check_choice, check_count, check_fraction, check_positive
from ._base import row
from ._bernoulli import GatesByExample, likely
from ._carrying import carried, carry
from ._features import example_features
from ._fixed import REDUCTIONS
from ._gumbel import averaged, drawn_gates, prior


class GumbelByExample(GatesByExample):
    """Gates that are a function of the example, as in adaptive inference graphs.

    Veit, Belongie (2018), "Convolutional Networks with Adaptive Inference Graphs". As published:
    the features of the layer's input are pooled and go through two linear layers with a ReLU
    between them; the gates are drawn for each example, straight-through, at a fixed temperature;
    and the share of a batch for which each gate is open is held at a target.

    Ours: an offset for each task, in place of the last bias, which starts at ``p_init`` (theirs
    start mostly open); no batch normalisation between the linear layers, since tasks share them;
    gates of a layer's components where theirs decide about whole layers; the likely gates in
    evaluation, where the authors' code draws them; and by default the open components of an
    example are averaged (``reduce="sum"`` adds them, as their residual layers do).

    Examples decide, so no matrix of tasks says it all: `matrix` and `probabilities` are those of
    the task's offsets alone, what an example gets whose features say nothing.

    >>> import torch
    >>> from allotment.allocation import GumbelByExample
    >>> GumbelByExample(2, 3, n_features=8).weights(0, torch.randn(5, 8)).shape
    torch.Size([5, 3])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        n_features: Features or channels of the layer's input.
        n_hidden: Width between the two linear layers.
        p_init: Probability of each gate to be open at the start, by the offsets alone.
        temperature: Of the backward pass.
        target_rate: The share of examples for which each gate should be open; None: any.
        target_weight: What the squared distance from the target costs, summed over gates.
        reduce: ``"mean"`` or ``"sum"`` of open components.
    """

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        n_features: int,
        n_hidden: int = 16,
        p_init: float = 0.5,
        temperature: float = 1.0,
        target_rate: float | None = None,
        target_weight: float = 1.0,
        reduce: str = "mean",
    ) -> None:
        super().__init__(n_tasks, n_components)
        check_positive("temperature", temperature)
        check_choice("reduce", reduce, REDUCTIONS)
        check_at_least("target_weight", target_weight, 0.0)
        if target_rate is not None:
            check_fraction("target_rate", target_rate)
        self.router = _router(n_features, n_hidden, n_components)
        self.offsets = nn.Parameter(torch.logit(prior(p_init, n_tasks, n_components)))
        self.n_features, self.temperature, self.reduce = n_features, temperature, reduce
        self.target_rate, self.target_weight = target_rate, target_weight
        self.n_noise = n_components

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        gates = self.gates(task, x, noise=noise)
        # A copy: a tensor that carries itself would never be freed at once.
        weights = averaged(gates) if self.reduce == "mean" else gates.clone()
        return carry(weights, gates) if self.training else weights

    def gates(self, task: int | Tensor, x: Tensor | None, *, noise: Tensor | None = None) -> Tensor:
        """Returns the gates of each example in one pass, each exactly 0 or 1, ``[B, C]``."""
        logits: Tensor = self.router(example_features(x, self.n_features)) + row(self.offsets, task)
        return drawn_gates(logits, self.temperature, noise) if self.training else likely(logits)

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor | None:
        if self.target_rate is None:
            return None
        rates = carried(weights).mean(dim=0)  # [C]
        return self.target_weight * (rates - self.target_rate).square().sum()

    def extra_repr(self) -> str:
        options = f"n_features={self.n_features}, target_rate={self.target_rate}"
        return f"{super().extra_repr()}, {options}, reduce={self.reduce!r}"


def _router(n_features: int, n_hidden: int, n_components: int) -> nn.Sequential:
    """Returns two linear layers with a ReLU between; the offsets of tasks are the last bias."""
    for name, n in (("n_features", n_features), ("n_hidden", n_hidden)):
        check_count(name, n)
    last = nn.Linear(n_hidden, n_components, bias=False)
    return nn.Sequential(nn.Linear(n_features, n_hidden), nn.ReLU(), last)
