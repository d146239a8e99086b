"""Binary gates learnt by the straight-through estimator."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ._bernoulli import GateTable, drawn
from ._gumbel import averaged


class StraightThroughMatrix(GateTable):
    """Gates drawn in the forward pass, with the gradient of their probability.

    Bengio, Leonard, Courville (2013), "Estimating or Propagating Gradients Through Stochastic
    Neurons for Conditional Computation". As published: a gate is 0 or 1 by a Bernoulli draw, and
    the backward pass takes it for its probability. Unlike a `GumbelMatrix` it has no noise in the
    backward pass and no temperature. The publication also tries the gradient of the logit itself;
    that is left out. Ours is one gate for each task and component, and that open components are
    averaged.

    >>> from allotment.allocation import StraightThroughMatrix
    >>> StraightThroughMatrix(2, 3, p_init=[[0.9, 0.9, 0.1], [0.1, 0.9, 0.9]]).matrix()
    tensor([[1., 1., 0.],
            [0., 1., 1.]])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        p_init: Probability of each gate to be open at the start, one number or ``[T, C]``.
        keeps_one: Whether the most likely gate opens where all are shut, which is ours.
    """

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        p_init: float | Tensor | Sequence[Sequence[float]] = 0.5,
        keeps_one: bool = True,
    ) -> None:
        super().__init__(n_tasks, n_components, p_init=p_init, keeps_one=keeps_one)

    def training_weights(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        p_open = torch.sigmoid(logits)
        # These brackets keep every gate exactly binary.
        gates = drawn(logits, noise) + (p_open - p_open.detach())
        return averaged(self.kept(gates, logits))
