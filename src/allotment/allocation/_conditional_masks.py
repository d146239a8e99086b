"""Masks of components that each example draws for itself, learnt by reward."""

import torch
from torch import Tensor, nn

from .._checks import check_at_least, check_count, check_probability
from ._base import row
from ._baseline import RunningBaseline
from ._bernoulli import GatesByExample, drawn, likely, log_likelihood
from ._carrying import carried, carry
from ._features import example_features
from ._gumbel import averaged, prior


class ScoreFunctionByExample(GatesByExample):
    """A sigmoid policy that drops components for each example, learnt by REINFORCE.

    Bengio, Bacon, Pineau, Precup (2015), "Conditional Computation in Neural Networks for Faster
    Models". As published: a linear layer and a sigmoid give the probability of each mask from the
    layer's input, masks are Bernoulli draws, the policy follows the score function, and three
    regularisers hold its probabilities: at a target over the batch for each component (L_b), at it
    over the components for each example (L_e), and apart from example to example (L_v).

    Ours: an offset for each task, in place of a bias; a running mean of each task's loss as
    baseline; open components are averaged; evaluation takes the likely masks; L_b and L_e are
    absolute distances, one weight for both (the authors' code squares them, weighs L_e by a
    thousandth of L_b, and lets L_v reward variance over components too). The gradient reaches what
    made the layer's input too, as the exact one does.

    Examples decide, so no matrix of tasks says it all: `matrix` and `probabilities` are those of
    the task's offsets alone, what an example gets whose features are zero. A training loop of one's
    own adds `auxiliary_loss` to the loss, and calls `observe`. With the loss of the batch in place
    of each example's, the gradient has the same mean and is so noisy that little is learnt by it.

    >>> import torch
    >>> from allotment.allocation import ScoreFunctionByExample
    >>> ScoreFunctionByExample(2, 3, n_features=8).weights(0, torch.randn(5, 8)).shape
    torch.Size([5, 3])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        n_features: Features or channels of the layer's input.
        p_init: Probability of each mask to be open at the start, by the offsets alone.
        baseline_decay: How much of its mean loss a task keeps in a batch.
        target_rate: The probability that L_b and L_e hold, strictly between 0 and 1.
        sparsity_weight: What L_b and L_e cost.
        variance_weight: What L_v costs.
    """

    rewards_examples = True
    axes = (("offsets", "T"), *RunningBaseline.axes)

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        n_features: int,
        p_init: float = 0.5,
        baseline_decay: float = 0.9,
        target_rate: float = 0.5,
        sparsity_weight: float = 0.0,
        variance_weight: float = 0.0,
    ) -> None:
        super().__init__(n_tasks, n_components)
        check_count("n_features", n_features)
        check_probability("target_rate", target_rate)
        check_at_least("sparsity_weight", sparsity_weight, 0.0)
        check_at_least("variance_weight", variance_weight, 0.0)
        self.policy = nn.Linear(n_features, n_components, bias=False)
        self.offsets = nn.Parameter(torch.logit(prior(p_init, n_tasks, n_components)))
        self.baseline = RunningBaseline(n_tasks, baseline_decay)
        self.n_features, self.n_noise, self.target_rate = n_features, n_components, target_rate
        self.sparsity_weight, self.variance_weight = sparsity_weight, variance_weight

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        logits = self.policy(example_features(x, self.n_features)) + row(self.offsets, task)
        if not self.training:
            return averaged(likely(logits.detach()))
        return carry(averaged(drawn(logits, noise)), logits)  # [B, C] each

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor:
        logits = carried(weights)
        likelihood = log_likelihood(logits, weights)  # [B]; open is what has a weight
        advantage = self.baseline.advantage(task, loss)
        if loss.ndim:
            is_known = ~advantage.isnan()
            blamed = torch.where(is_known, advantage, 0.0) * likelihood
            charge = blamed.sum() / is_known.sum().clamp_min(1)
        else:  # each example's masks are blamed for all of the batch's loss, and not for a share
            charge = advantage * likelihood.sum()
        if self.sparsity_weight or self.variance_weight:
            sparsity, variance = regularisers(torch.sigmoid(logits), self.target_rate)
            charge = charge + self.sparsity_weight * sparsity + self.variance_weight * variance
        return charge

    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        self.baseline.observe(task, loss)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, n_features={self.n_features}"


def regularisers(p_open: Tensor, target: float) -> tuple[Tensor, Tensor]:
    """Returns L_b + L_e, and L_v, of probabilities ``[B, C]``."""
    by_component = (p_open.mean(dim=0) - target).abs().sum()
    by_example = (p_open.mean(dim=1) - target).abs().mean()
    return by_component + by_example, -p_open.var(dim=0, correction=0).sum()
