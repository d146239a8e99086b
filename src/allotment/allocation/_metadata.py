"""Gates as a function of what is known about a task."""

from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_count, check_probability
from ._base import Allocation, row
from ._gumbel import (
    Annealing,
    averaged,
    check_annealing,
    drawn_gates,
    keep_one,
    open_advantage,
)


class MetadataMatrix(Allocation):
    """Gates of a Gumbel-Matrix whose logits follow from each task's features.

    The paper names this as future work; the form is ours. Each gate has an open- and
    a shut-logit as in `GumbelMatrix`, and is drawn as there. The logits are a linear function of
    the features, or one with a hidden layer, so that tasks with similar features have similar
    rows, and a task that was never trained has a row too: `row_for`.

    >>> gates = MetadataMatrix(2, 3, features=[[1.0, 0.0], [0.0, 1.0]], p_init=0.75)
    >>> gates.row_for([0.5, 0.5])
    tensor([0.7500, 0.7500, 0.7500])

    With one feature a task and ``bias=False`` it is `GumbelMatrix`, number by number.

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        features: What is known about each task, ``[T, F]``. Numbers should be of size about 1,
            since they multiply the learning rate.
        hidden: Width of a hidden layer with tanh; None: the logits are linear.
        p_init: Probability of each gate to be open at the start, whatever the features.
        bias: Whether all tasks learn an offset in common; else it stays as ``p_init`` says.
        temperature: The temperature as a function of the number of training batches.
        keeps_one: Whether the most likely gate opens where all are shut.
    """

    axes = (("features", "T"), ("weight", "FC"), ("bias", "C"))
    features: Tensor
    n_batches: Tensor

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        features: Any,
        hidden: int | None = None,
        p_init: float = 0.5,
        bias: bool = True,
        temperature: Annealing = Annealing(),
        keeps_one: bool = True,
    ) -> None:
        super().__init__(n_tasks, n_components, counts_batches=True)
        check_annealing(temperature)
        check_probability("p_init", p_init)
        rows = _numbers(features)
        if rows is None or rows.ndim != 2 or len(rows) != n_tasks or not rows.numel():
            raise ValueError(
                f"`features` should be finite numbers of shape [{n_tasks}, F]. "
                f"Found {_described(features, rows)}."
            )
        self.register_buffer("features", rows)
        n_inputs = rows.shape[1]
        self.inner, self.inner_bias = None, None
        if hidden is not None:
            check_count("hidden", hidden)
            self.inner = nn.Parameter(nn.init.xavier_uniform_(torch.empty(n_inputs, hidden)))
            self.inner_bias = nn.Parameter(torch.zeros(hidden))
        # Zeros: every task starts at `p_init`.
        self.weight = nn.Parameter(torch.zeros(hidden or n_inputs, n_components, 2))
        start = torch.tensor([p_init, 1 - p_init]).log().repeat(n_components, 1)
        self.bias = nn.Parameter(start, requires_grad=bias)
        self.temperature = temperature
        self.keeps_one = keeps_one
        self.n_noise = n_components

    def row_for(self, features: Any) -> Tensor:
        """Returns each gate's probability to be open for a task with these features.

        Shape ``[C]`` for features ``[F]``, and ``[N, C]`` for those of several tasks, ``[N, F]``.
        The task need not be among those that were trained. A gate of at least one half is open in
        evaluation.
        """
        rows, n_inputs = _numbers(features), self.features.shape[1]
        if rows is None or rows.ndim not in (1, 2) or rows.shape[-1] != n_inputs:
            raise ValueError(
                f"`features` should be finite numbers of shape [{n_inputs}] or [N, {n_inputs}]. "
                f"Found {_described(features, rows)}."
            )
        return torch.sigmoid(self._advantage(rows.to(self.features))).detach()

    def add_task(self, like: Any = None) -> None:
        """Adds a task behind the others: by its features, or with those of another task."""
        if isinstance(like, int):
            super().add_task(like)
            return
        own, n_inputs = _numbers(like), self.features.shape[1]
        if own is None or own.shape != (n_inputs,):
            raise ValueError(
                f"`like` should be a task, or the new one's features, {n_inputs} finite numbers. "
                f"Found {_described(like, own).replace('features', 'like')}."
            )
        self.features = torch.cat([self.features, own.to(self.features).unsqueeze(0)])
        self.n_tasks += 1

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return averaged(self.gates(task, noise=noise))

    def gates(self, task: int | Tensor, *, noise: Tensor | None = None) -> Tensor:
        """Returns the gates of one pass, each exactly 0 or 1, shape ``[C]``."""
        advantage = self._advantage(row(self.features, task))
        if not self.training:
            return self._likely(advantage)
        gates = drawn_gates(advantage, self.temperature(self.n_batches), noise)
        return keep_one(gates, advantage) if self.keeps_one else gates

    def _likely(self, advantage: Tensor) -> Tensor:
        gates = (advantage >= 0).to(advantage.dtype)
        return keep_one(gates, advantage) if self.keeps_one else gates

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        features = self.features if task is None else row(self.features, task)
        return torch.sigmoid(self._advantage(features))

    def matrix(self) -> Tensor:
        return self._likely(self._advantage(self.features).detach())

    def _advantage(self, features: Tensor) -> Tensor:
        """Returns the open-logit less the shut-logit of each gate, ``[..., C]``."""
        if self.inner is not None and self.inner_bias is not None:
            features = torch.tanh(features @ self.inner + self.inner_bias)
        logits = features @ self.weight.flatten(1) + self.bias.flatten()
        return open_advantage(logits.unflatten(-1, (self.n_components, 2)).to(self.weight.dtype))

    def extra_repr(self) -> str:
        n_inputs = self.features.shape[1]
        return f"{super().extra_repr()}, n_features={n_inputs}, temperature={self.temperature}"


def _numbers(features: Any) -> Tensor | None:
    """Returns a copy of features as a tensor; None where they are no finite numbers."""
    try:
        copy = features.detach().clone() if isinstance(features, Tensor) else torch.tensor(features)
    except (TypeError, ValueError, RuntimeError):  # rows of different lengths, or no numbers
        return None
    numbers = copy.to(torch.get_default_dtype())
    return numbers if numbers.isfinite().all() else None


def _described(features: object, rows: Tensor | None) -> str:
    return f"`features = {features!r}`" if rows is None else f"shape {list(rows.shape)}"
