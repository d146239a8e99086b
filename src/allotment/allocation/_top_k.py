"""Mixture of experts for each example: the k best components by a noisy gate."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._checks import check_at_least, check_count, check_positive, check_whole
from ._base import Allocation, row
from ._carrying import carried, carry
from ._features import example_features

LEAST_NOISE = 0.01  # of Shazeer et al.'s code, so that no probability is divided by zero


class TopKExperts(Allocation):
    """The ``k`` components with the highest scores, for each example, by noisy top-k gating.

    A mixture of experts as in Ramachandran and Le 2019, "Diversity and Depth in Per-Example Routing
    Models", after Shazeer et al. 2017, "Outrageously Large Neural Networks: The Sparsely-Gated
    Mixture-of-Experts Layer". A linear gate, starting at zero, scores components; in training each
    score has normal noise of a learnt size. The weights are a softmax over the ``k`` highest
    scores. So that all components are used, the loss is charged the squared coefficients of
    variation of their importance and load in the batch; the weight of the charge falls to zero.

    Ours: an offset of each task beside the gate, which all tasks share; that the fall is linear;
    that ``k`` is rounded where it changes over layers. A batch has one task, so components are
    balanced within each task.

    What can be said of a task without examples, in `matrix` and `probabilities`, is the softmax of
    its offset over all components. The mean of ``weights(task, x)`` over examples tells how much a
    task uses each component on them.

    >>> import torch
    >>> from allotment.allocation import TopKExperts
    >>> weights = TopKExperts(2, 6, n_features=8, k=2).eval().weights(0, torch.randn(5, 8))
    >>> (weights > 0).sum(1)
    tensor([2, 2, 2, 2, 2])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        n_features: Features, or channels, of the layer's input. Images are averaged over pixels.
        k: How many components an example uses; a pair: in the first and in the last layer, with
            equal steps between (7 to 2 for Omniglot in the publication).
        depth: The layer's place among those with components, from 0.
        n_layers: How many layers have components.
        by_task: Whether each task has an offset; else the gate sees the example alone.
        balance: Weight of the charge for uneven use at the start; 0: no charge.
        balance_batches: Training batches after which the charge is zero.
    """

    is_binary = False
    sees_examples = True
    axes = (("offsets", "T"),)
    n_batches: Tensor

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        n_features: int,
        k: int | Sequence[int] = 2,
        depth: int = 0,
        n_layers: int = 1,
        by_task: bool = True,
        balance: float = 0.1,
        balance_batches: int = 10_000,
    ) -> None:
        super().__init__(n_tasks, n_components, counts_batches=True)
        check_count("n_features", n_features)
        check_at_least("balance", balance, 0.0)
        check_positive("balance_batches", balance_batches)
        self.n_features = n_features
        self.k = k_at(k, depth, n_layers, n_components)
        self.balance = balance
        self.balance_batches = balance_batches
        # Zeros, as published: no signal and some noise, so that the load starts even.
        self.gate = nn.Parameter(torch.zeros(n_components, n_features))
        self.noise_gate = nn.Parameter(torch.zeros(n_components, n_features))
        self.offsets = nn.Parameter(torch.zeros(n_tasks, n_components)) if by_task else None
        self.n_noise = n_components

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        features = example_features(x, self.n_features).to(self.gate.dtype)
        clean = (features @ self.gate.T).to(self.gate.dtype)  # [B, C]
        if self.offsets is not None:
            clean = clean + row(self.offsets, task)
        if not self.training:
            return top_k_softmax(clean, self.k)
        scale = F.softplus((features @ self.noise_gate.T).to(clean.dtype)) + LEAST_NOISE
        normal = torch.randn_like(clean) if noise is None else torch.special.ndtri(noise)
        noisy = clean + normal * scale
        weights = top_k_softmax(noisy, self.k)
        return carry(weights, expected_load(clean, noisy, scale, self.k))

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor | None:
        if not self.balance:
            return None
        uneven = unevenness(weights.sum(dim=0)) + unevenness(carried(weights))
        return self.balance * (1 - self.n_batches / self.balance_batches).clamp_min(0.0) * uneven

    def matrix(self) -> Tensor:
        return self.probabilities().detach()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        alike = self.gate.new_zeros(self.n_tasks, self.n_components)
        offsets = alike if self.offsets is None else self.offsets
        return (offsets if task is None else row(offsets, task)).softmax(dim=-1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, n_features={self.n_features}, k={self.k}"


def k_at(k: int | Sequence[int], depth: int, n_layers: int, n_components: int) -> int:
    """Returns how many components are used at a depth, where ``k`` may be a pair of ends.

    >>> [k_at((7, 2), depth, n_layers=8, n_components=7) for depth in range(8)]
    [7, 6, 6, 5, 4, 3, 3, 2]
    """
    ends = list(k) if isinstance(k, Sequence) else [k, k]
    for end in ends:
        check_whole("k", end)
    if len(ends) != 2 or not all(1 <= end <= n_components for end in ends):
        raise ValueError(
            f"`k` should be a number from 1 to {n_components}, as many as there are components, or "
            f"a pair of such. Found `k = {k}`."
        )
    if not 0 <= depth < n_layers:
        raise ValueError(
            f"`depth` should be in [0, n_layers). Found `depth = {depth}` of {n_layers} layers."
        )
    first, last = ends
    return round(first + (last - first) * depth / max(n_layers - 1, 1))


def top_k_softmax(scores: Tensor, k: int) -> Tensor:
    """Returns the softmax of the ``k`` highest scores of each row, ``[B, C]``; else zero."""
    highest, places = scores.topk(k, dim=-1)
    return torch.zeros_like(scores).scatter(-1, places, highest.softmax(dim=-1))


def expected_load(clean: Tensor, noisy: Tensor, scale: Tensor, k: int) -> Tensor:
    """Returns how many examples each component can expect, ``[C]`` (Shazeer et al., Appendix A).

    That is the sum of its probabilities to be among the ``k`` highest if its own noise were drawn
    anew, while the others keep their ``noisy`` scores.
    """
    if k == clean.shape[-1]:
        return torch.ones_like(clean).sum(dim=0)  # there is nothing to compare with
    highest = noisy.topk(k + 1, dim=-1).values
    # Without itself, a component that is in has to beat the one that is just out.
    last_in, first_out = highest[..., k - 1 : k], highest[..., k:]
    threshold = torch.where(noisy > first_out, first_out, last_in)
    chances: Tensor = torch.special.ndtr((clean - threshold) / scale)
    return chances.sum(dim=0)


def unevenness(amounts: Tensor) -> Tensor:
    """Returns the squared coefficient of variation of amounts ``[C]``: 0 where they are equal."""
    mean = amounts.mean()
    return (amounts - mean).square().mean() / (mean.square() + 1e-10)
