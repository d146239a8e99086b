"""Binary gates learnt by reward: the score-function estimator."""

from collections.abc import Sequence

from torch import Tensor

from ._base import row
from ._baseline import RunningBaseline
from ._bernoulli import GateTable, drawn, log_likelihood
from ._gumbel import averaged


class ScoreFunctionMatrix(GateTable):
    """Bernoulli gates learnt by REINFORCE, with a running mean of each task's loss as baseline.

    Williams (1992), "Simple Statistical Gradient-Following Algorithms for Connectionist
    Reinforcement Learning". As published is the estimator: no gradient goes through the gates, and
    the likelihood of those drawn is raised or lowered by how good the loss was. It is unbiased and
    noisy. Ours is one gate for each task and component, that open components are averaged, and
    that the baseline is an exponential mean a task. Gates are learnt from a task's second batch on.

    A training loop of one's own adds `auxiliary_loss` to the loss, and calls `observe`.

    >>> from allotment.allocation import ScoreFunctionMatrix
    >>> ScoreFunctionMatrix(2, 3, p_init=[[0.9, 0.9, 0.1], [0.1, 0.9, 0.9]]).matrix()
    tensor([[1., 1., 0.],
            [0., 1., 1.]])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        p_init: Probability of each gate to be open at the start, one number or ``[T, C]``.
        baseline_decay: How much of its mean loss a task keeps in a batch.
    """

    axes = (("logits", "TC"), *RunningBaseline.axes)

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        p_init: float | Tensor | Sequence[Sequence[float]] = 0.5,
        baseline_decay: float = 0.9,
    ) -> None:
        super().__init__(n_tasks, n_components, p_init=p_init)
        self.baseline = RunningBaseline(n_tasks, baseline_decay)

    def training_weights(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        return averaged(drawn(logits, noise))

    def auxiliary_loss(self, task: int | Tensor, loss: Tensor, weights: Tensor) -> Tensor:
        # A gate was open where its component has a weight.
        return self.baseline.advantage(task, loss) * log_likelihood(row(self.logits, task), weights)

    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        self.baseline.observe(task, loss)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, baseline_decay={self.baseline.decay}"
