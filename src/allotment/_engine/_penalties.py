"""The penalties of several runs, which may have different budgets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ..allocation import row
from ..modules import budget_penalty, connection_penalty, disconnect_penalty, entropy_penalty

if TYPE_CHECKING:
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

    def __init__(self, runs: "Sequence[Run]", n_steps: int, costs: Tensor | None = None) -> None:
        settings = [run.settings.penalties for run in runs]
        self._common = settings[0]
        self._layer_sizes = runs[0].network.layer_sizes
        self._n_steps = n_steps
        self.costs = costs
        self._by_task = any(chosen.has_budgets_by_task for chosen in settings)
        shares, weights = map(torch.tensor, zip(*map(_budgets_of, runs), strict=True))  # [R, T]
        both = Budgets(shares, weights)
        self.budgets = both if self._by_task else Budgets(*(values[:, 0] for values in both))
        self._has_budget = bool(weights.any())
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


def _budgets_of(run: "Run") -> tuple[list[float], list[float]]:
    """Returns a run's budget for each task, and its weight: 0 where there is none."""
    chosen = run.settings.penalties
    budgets = chosen.budgets([task.name for task in run.tasks])
    shares = [1.0 if budget is None else budget for budget in budgets]
    return shares, [0.0 if budget is None else chosen.budget_weight for budget in budgets]
