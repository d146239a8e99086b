"""The penalties of several runs, which may have different budgets."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..modules import budget_penalty, connection_penalty, disconnect_penalty, entropy_penalty
from ..settings import Penalties


class Budgets(NamedTuple):
    """Each run's budget and its weight, ``[R]``; a run without a budget has weight 0."""

    shares: Tensor
    weights: Tensor


class PenaltySchedule:
    """Charges one run for its gates, as the settings say, at each step of training."""

    def __init__(
        self, settings: Sequence[Penalties], layer_sizes: Sequence[int], n_steps: int
    ) -> None:
        self._common = settings[0]
        self._layer_sizes = layer_sizes
        self._n_steps = n_steps
        shares = [1.0 if chosen.budget is None else chosen.budget for chosen in settings]
        weights = [0.0 if chosen.budget is None else chosen.budget_weight for chosen in settings]
        self.budgets = Budgets(torch.tensor(shares), torch.tensor(weights))
        self._has_budget = any(weights)
        common = self._common
        self.any = self._has_budget or any(
            (common.entropy_weight, common.connection_weight, common.disconnect_weight)
        )

    def budgets_on(self, device: torch.device) -> Budgets:
        """Returns each run's budget and its weight on a device."""
        return Budgets(*(values.to(device) for values in self.budgets))

    def __call__(self, probabilities: Tensor, budgets: Budgets, step: Tensor) -> Tensor:
        """Returns the sum of one run's penalties, given its own budget."""
        common = self._common
        total = probabilities.new_zeros(())
        if self._has_budget:
            total = total + budget_penalty(probabilities, budgets.shares, weight=budgets.weights)
        if common.entropy_weight:
            total = total + entropy_penalty(
                probabilities,
                weight=common.entropy_weight,
                progress=step / self._n_steps,
                power=common.entropy_power,
            )
        if common.connection_weight:
            total = total + connection_penalty(probabilities, weight=common.connection_weight)
        if common.disconnect_weight:
            total = total + disconnect_penalty(
                probabilities, self._layer_sizes, weight=common.disconnect_weight
            )
        return total
