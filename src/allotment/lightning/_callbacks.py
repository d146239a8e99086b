"""What allocations do while they train, told to Lightning's loggers."""

import warnings
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer

from .._checks import check_at_least, check_whole, described
from ..training import are_optional, dead_layers
from ._module import MultiTaskModule
from ._strategies import whole


class AllocationLogger(Callback):
    """Logs how open the gates are, and warns of tasks that use nothing, or more than the budget.

    ``gates_open`` is the share of gates that evaluation has open, and ``gates_open/a`` that of a
    task. Where penalties have a budget, ``over_budget`` or, by task, ``over_budget/a`` is the
    expected share of open gates above it. After an epoch of Lightning's it warns once of each task
    that uses nothing of a layer, and after the training of a budget that is missed.

    Args:
        every: Optimizer steps between entries.
        probabilities: Whether to log each gate's probability to be open, too, as
            ``probability/a/3`` for the fourth component.
    """

    def __init__(self, every: int = 50, *, probabilities: bool = False) -> None:
        check_whole("every", every)
        check_at_least("every", every, 1)
        self._every = every
        self._probabilities = probabilities
        self._told: set[str] = set()
        self._last = 0  # the step of the last entry: batches that are accumulated share one

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        check_module(self, pl_module)

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if step % self._every or step == self._last:
            return
        self._last = step
        with whole(trainer, pl_module):
            values = self._values(pl_module)
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics(values, step=step)

    def _values(self, module: LightningModule) -> dict[str, float]:
        assert isinstance(module, MultiTaskModule)
        names = module.network.task_names
        rows = module.network.matrix().float().mean(dim=1).tolist()
        found = {"gates_open": sum(rows) / len(rows)}
        found |= _by_task("gates_open", names, rows)
        probabilities, chosen = module.network.probabilities(), module.settings.penalties
        if chosen.budget is not None:
            over = (probabilities.mean(dim=1) - chosen.budget).clamp_min(0.0)
            if chosen.budget_scope == "task":
                found |= _by_task("over_budget", names, over.tolist())
            else:
                found["over_budget"] = max(float(probabilities.mean()) - chosen.budget, 0.0)
        if self._probabilities:
            for name, row in zip(names, probabilities.tolist(), strict=True):
                found |= {f"probability/{name}/{n}": value for n, value in enumerate(row)}
        return found

    @torch.no_grad()
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, MultiTaskModule)
        network = pl_module.network
        with whole(trainer, pl_module):
            matrix = network.matrix().cpu().numpy()
        dead = dead_layers(matrix, network.task_names, network.layer_sizes, are_optional(network))
        for name in [name for name in dead if name not in self._told and trainer.is_global_zero]:
            self._told.add(name)
            warnings.warn(
                f"Task {name!r} should use something of every modular layer. "
                f"Found that it uses nothing of layer {', '.join(map(str, dead[name]))}.",
                stacklevel=2,
            )

    @torch.no_grad()
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, MultiTaskModule)
        chosen = pl_module.settings.penalties
        if chosen.budget is None:
            return
        with whole(trainer, pl_module):
            rows = pl_module.network.matrix().float().mean(dim=1).tolist()
        if chosen.budget_scope == "task":
            shares = dict(zip(pl_module.network.task_names, rows, strict=True))
            found = [
                f"{share:.3g} for {n!r}" for n, share in shares.items() if share > chosen.budget
            ]
        else:
            share = sum(rows) / len(rows)
            found = [f"{share:.3g}"] if share > chosen.budget else []
        if found and trainer.is_global_zero:
            warnings.warn(
                f"The share of open gates should be at most the budget, {chosen.budget:.3g}. "
                f"Found {', '.join(found)}. A larger `budget_weight` or more rounds may help.",
                stacklevel=2,
            )


def check_module(callback: Callback, module: LightningModule) -> None:
    """Raises unless a callback of ours is given a module of ours."""
    if not isinstance(module, MultiTaskModule):
        raise TypeError(
            f"{type(callback).__name__} should have a MultiTaskModule. Found {described(module)}."
        )


def _by_task(what: str, names: list[str], values: list[float]) -> dict[str, float]:
    return {f"{what}/{name}": value for name, value in zip(names, values, strict=True)}
