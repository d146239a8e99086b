"""What allocations do while they train, told to Lightning's loggers."""

import warnings
from typing import Any

import numpy as np
import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_at_least, check_whole, described
from ..training import DeadTasks
from ._module import MultiTaskModule
from ._strategies import whole

_SQUARE = 8  # pixels of a gate in the picture of all, each way


class AllocationLogger(Callback):
    """Logs how open the gates are, and warns of tasks that use nothing, or more than the budget.

    ``gates_open`` is the share of gates that evaluation has open, and ``gates_open/a`` that of a
    task. Where penalties have a budget, ``over_budget`` or, by task, ``over_budget/a`` is the
    expected share of what is counted above it. Loggers that take pictures, such as those of
    TensorBoard and of Weights & Biases, get the map ``allocation``: a row of squares for each task,
    the darker the likelier a gate is to be open. It warns once of each task that uses nothing of a
    layer, with the entry, or after the epoch, at which it is first seen; and after the training of
    a budget that is missed.

    >>> from allotment.lightning import AllocationLogger
    >>> callbacks = [AllocationLogger(every=10)]  # of a Trainer

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
        self._watch: DeadTasks | None = None
        self._last = 0  # the step of the last entry: batches that are accumulated share one

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        check_module(self, pl_module)

    @torch.no_grad()
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, MultiTaskModule)
        step = trainer.global_step
        if step % self._every or step == self._last:
            return
        self._last = step
        with whole(trainer, pl_module):
            values = self._values(pl_module)
            picture = _map(pl_module.network.probabilities())
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics(values, step=step)
                _show(logger, picture, step)
        self._look(trainer, pl_module)

    def _values(self, module: MultiTaskModule) -> dict[str, float]:
        names = module.network.task_names
        rows = module.network.matrix().float().mean(dim=1).tolist()
        found = {"gates_open": sum(rows) / len(rows)}
        found |= _by_task("gates_open", names, rows)
        probabilities = module.network.probabilities()
        found |= {
            "/".join(["over_budget", *name]): max(share - budget, 0.0)
            for name, share, budget in _budgeted(module, probabilities)
        }
        if self._probabilities:
            for name, row in zip(names, probabilities.tolist(), strict=True):
                found |= {f"probability/{name}/{n}": value for n, value in enumerate(row)}
        return found

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._look(trainer, pl_module)

    @torch.no_grad()
    def _look(self, trainer: Trainer, module: LightningModule) -> None:
        """Warns of tasks that are left with nothing, each once."""
        assert isinstance(module, MultiTaskModule)
        network = module.network
        with whole(trainer, module):
            gates = (network.probabilities(), network.matrix())
        if trainer.is_global_zero:
            self._watch = self._watch or DeadTasks(network, network.task_names)
            probabilities, matrix = (part.cpu().double().numpy() for part in gates)
            self._watch.tell([(probabilities, matrix)], f" at step {trainer.global_step:,}")

    @torch.no_grad()
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, MultiTaskModule)
        with whole(trainer, pl_module):
            shares = _budgeted(pl_module, pl_module.network.matrix().float())
        found = [
            f"{share:.3g}{''.join(f' for {own!r}' for own in name)}, above {budget:.3g}"
            for name, share, budget in shares
            if share > budget
        ]
        if found and trainer.is_global_zero:
            warnings.warn(
                "The share of what gates count should be at most the budget. "
                f"Found {'; '.join(found)}. A larger `budget_weight` or more rounds may help.",
                stacklevel=2,
            )


def check_module(callback: Callback, module: LightningModule) -> None:
    """Raises unless a callback of ours is given a module of ours."""
    if not isinstance(module, MultiTaskModule):
        raise TypeError(
            f"{type(callback).__name__} should have a MultiTaskModule. Found {described(module)}."
        )


def _budgeted(module: MultiTaskModule, gates: Tensor) -> list[tuple[tuple[str, ...], float, float]]:
    """Returns what has a budget: a task's name, or none for all; its share; and the budget."""
    chosen, names = module.settings.penalties, module.network.task_names
    costs = torch.ones(gates.shape[1]) if module.gate_costs is None else module.gate_costs
    costs = costs.to(gates)
    rows = (gates @ costs / costs.sum()).tolist()
    budgets = chosen.budgets(names)
    if chosen.budget_scope == "global":
        return [] if budgets[0] is None else [((), sum(rows) / len(rows), budgets[0])]
    each = zip(names, rows, budgets, strict=True)
    return [((name,), share, budget) for name, share, budget in each if budget is not None]


def _map(probabilities: Tensor) -> NDArray[np.uint8]:
    """Returns a picture of all gates, a square each, black where one is open for certain."""
    shades = (255 * (1 - probabilities.float())).round().byte().cpu().numpy()
    return shades.repeat(_SQUARE, axis=0).repeat(_SQUARE, axis=1)


def _show(logger: Logger, picture: NDArray[np.uint8], step: int) -> None:
    """Gives a picture to a logger that has a way to take one."""
    log_image = getattr(logger, "log_image", None)  # Lightning's own word for it
    add_image = getattr(getattr(logger, "experiment", None), "add_image", None)  # TensorBoard's
    if log_image is not None:
        log_image("allocation", [picture], step=step)
    elif add_image is not None:
        add_image("allocation", picture, step, dataformats="HW")


def _by_task(what: str, names: list[str], values: list[float]) -> dict[str, float]:
    return {f"{what}/{name}": value for name, value in zip(names, values, strict=True)}
