"""The penalties of several runs, which may have different budgets."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..allocation import row
from ..modules import budget_penalty, connection_penalty, disconnect_penalty, entropy_penalty
from ._run import Run


class Budgets(NamedTuple):
    """Each run's budget and its weight, ``[R]``, or ``[R, T]`` where a run has some by task.

    Where there is no budget the weight is 0.
    """

    shares: Tensor
    weights: Tensor


class PenaltySchedule:
    """Charges one run for its gates, as the settings say, at each step of training.

    ``costs`` are what gates count, ``[C]``; None: all the same.
    """

    def __init__(self, runs: Sequence[Run], n_steps: int, costs: Tensor | None = None) -> None:
        settings = [run.settings.penalties for run in runs]
        self._common = settings[0]
        self._layer_sizes = runs[0].network.layer_sizes
        self._n_steps = n_steps
        self.costs = costs
        self._by_task = any(chosen.has_budgets_by_task for chosen in settings)
        rows = [run.settings.penalties.budgets([task.name for task in run.tasks]) for run in runs]
        weights = [
            [0.0 if budget is None else chosen.budget_weight for budget in row]
            for row, chosen in zip(rows, settings, strict=True)
        ]
        shares = torch.tensor([[1.0 if budget is None else budget for budget in r] for r in rows])
        both = Budgets(shares, torch.tensor(weights))
        self.budgets = both if self._by_task else Budgets(*(values[:, 0] for values in both))
        self._has_budget = any(map(any, weights))
        common = self._common
        self.any = self._has_budget or any(
            (common.entropy_weight, common.connection_weight, common.disconnect_weight)
        )

    def budgets_on(self, device: torch.device) -> Budgets:
        """Returns each run's budget and its weight on a device."""
        return Budgets(*(values.to(device) for values in self.budgets))

    def __call__(
        self, probabilities: Tensor, task: int | Tensor, budgets: Budgets, step: Tensor
    ) -> Tensor:
        """Returns the sum of one run's penalties in a batch of a task, given its own budget."""
        common = self._common
        total = probabilities.new_zeros(())
        costs = None if self.costs is None else self.costs.to(probabilities)
        if self._has_budget:
            share, weight = (row(part, task) if self._by_task else part for part in budgets)
            total = total + budget_penalty(probabilities, share, weight=weight, costs=costs)
        if common.entropy_weight:
            total = total + entropy_penalty(
                probabilities,
                weight=common.entropy_weight,
                progress=step / self._n_steps,
                power=common.entropy_power,
            )
        if common.connection_weight:
            total = total + connection_penalty(
                probabilities, weight=common.connection_weight, costs=costs
            )
        if common.disconnect_weight:
            total = total + disconnect_penalty(
                probabilities, self._layer_sizes, weight=common.disconnect_weight
            )
        return total
