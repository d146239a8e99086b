"""The learning rates of a training, step by step."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..settings import Optimization


class LRSchedule:
    """The learning rate of each group of an optimizer, which follows the step alone.

    A captured step computes it on the device, and going on from a checkpoint needs nothing: one of
    torch's schedulers is asked for all steps at once. ``tried``, an optimizer like the one that
    takes the steps, is what it may change.
    """

    def __init__(
        self,
        chosen: Optimization,
        tried: torch.optim.Optimizer,
        length: tuple[int, int],
        device: torch.device,
    ) -> None:
        self._n_batches, self._tasks_per_step = length
        self.is_constant = chosen.lr_schedule == "constant"
        self._full = torch.tensor([float(g["lr"]) for g in tried.param_groups], device=device)
        self._options: list[list[dict[str, Any]]] = []  # by step and group, of a scheduler
        if callable(chosen.lr_schedule):
            n_steps = self._n_batches // self._tasks_per_step
            self._options = _tabulated(chosen.lr_schedule, tried, n_steps)
            rates = [[own["lr"] for own in options] for options in self._options]
            self._table = torch.tensor(rates, device=device)  # [S, G]

    def rates(self, batch: Tensor) -> Tensor:
        """Returns each group's rate at a step, counted in task batches from 0, ``[G]``."""
        if self._options:
            step = (batch // self._tasks_per_step).reshape(1)
            return self._table.index_select(0, step).squeeze(0)
        return self._full * (0.5 * (1.0 + torch.cos(torch.pi * batch / self._n_batches)))

    def options(self, batch: Tensor) -> list[dict[str, Any]]:
        """Returns what each group is set to at a step: its rate, and what else a scheduler sets."""
        if self._options:
            return self._options[int(batch) // self._tasks_per_step]
        return [{"lr": rate} for rate in self.rates(batch).tolist()]

    def check_rates_alone(self) -> None:
        """Raises where a scheduler changes more than learning rates."""
        for options in self._options:
            if [own.get("betas") for own in options] != [(0.9, 0.999)] * len(options):
                raise ValueError(
                    "`lr_schedule` should change learning rates alone, unless an `optimizer` is "
                    "given. Found one that changes `betas`; `cycle_momentum=False` leaves them."
                )


def _tabulated(
    schedule: Callable[[torch.optim.Optimizer], Any], tried: torch.optim.Optimizer, n_steps: int
) -> list[list[dict[str, Any]]]:
    """Returns what one of torch's schedulers sets at each step, group by group."""
    scheduler = schedule(tried)
    if not hasattr(scheduler, "step"):
        raise ValueError(
            f"`lr_schedule` should return a scheduler of torch's. Found {type(scheduler).__name__}."
        )
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, on a scheduler's steps without the optimizer's
        for _ in range(n_steps):
            names = ("lr", "momentum", "betas")  # what torch's schedulers change
            found.append([{n: g[n] for n in names if n in g} for g in tried.param_groups])
            try:
                scheduler.step()
            except TypeError as error:
                raise ValueError(
                    "`lr_schedule` should follow the step alone. "
                    f"Found {type(scheduler).__name__}, which asks for more: {error}"
                ) from error
    return found
