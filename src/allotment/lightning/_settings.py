"""What settings mean under Lightning: what is refused, the optimizer, and the length."""

from math import cos, pi
from typing import Any

import torch
from lightning import Trainer
from lightning.pytorch.utilities import rank_zero_warn

from .._checks import described
from .._engine import Run, parameter_groups, why_fetched
from ..modules import TaskNetwork
from ..settings import Augmentation, Optimization


def check_settings(run: Run) -> None:
    """Raises where a setting is given that a module under Lightning would not follow."""
    for name, value, plain, rule in _rules(run):
        if value != plain:
            is_short = isinstance(value, int | float | str)
            found = f"`{name} = {value!r}`" if is_short else described(value)
            raise ValueError(f"Under Lightning, `{name}` should be {rule}. Found {found}.")


def _rules(run: Run) -> tuple[tuple[str, Any, Any, str], ...]:
    """Returns settings by name: the value, the one that is taken, and the rule."""
    settings, balancing = run.settings, run.settings.loss_balancing
    optimization, execution = settings.optimization, settings.execution
    by_gradients = balancing if balancing is not None and balancing.needs_gradients else None
    why = why_fetched(run.tasks)
    augmentation = settings.augmentation if why else Augmentation()
    return (
        (
            "loss_balancing",
            by_gradients,
            None,
            "None or by losses; strategies add up the gradients of all tasks in one",
        ),
        ("patience", settings.patience, None, "None; the callback EarlyStopping does it"),
        ("ema_decay", optimization.ema_decay, 0.0, "0; the callback EMAWeightAveraging does it"),
        (
            "allocation_held_out",
            optimization.allocation_held_out,
            0.0,
            "0; it takes two backward passes a step, and strategies have one",
        ),
        ("augmentation", augmentation, Augmentation(), f"left out, since {why}; a dataset does it"),
        ("mixed_precision", execution.mixed_precision, "off", '"off"; Trainer(precision=) does it'),
        ("accumulate", execution.accumulate, 1, "1; Trainer(accumulate_grad_batches=) does it"),
        ("compile", execution.compile, False, "False; `torch.compile` takes parts of a network"),
    )


def warn_of_early_end(trainer: Trainer, n_done: int, n_steps: int) -> None:
    """Warns where a limit of the Trainer, and nobody's wish, ended a training before its rounds."""
    is_a_trial = trainer.fast_dev_run  # type: ignore[attr-defined]
    if n_done < n_steps and not trainer.should_stop and not is_a_trial:
        rank_zero_warn(
            f"The settings have {n_steps:,} steps, and the Trainer ended after {n_done:,} "
            f"(`max_epochs = {trainer.max_epochs}`, `max_steps = {trainer.max_steps}`). Gates that "
            "settle and schedules have not come to their end: give `max_epochs=-1`, and the module "
            "ends the training, or fewer `rounds`."
        )


def optimizers(network: TaskNetwork, chosen: Optimization, trainer: Trainer, n_steps: int) -> Any:
    """Returns what `configure_optimizers` should: an optimizer, and a schedule if there is one."""
    made = parameter_groups(network, chosen)
    optimizer = torch.optim.Adam(made) if chosen.optimizer is None else chosen.optimizer(made)
    if chosen.lr_schedule == "constant":
        return optimizer

    def cosine(step: int) -> float:
        n_batches = step * trainer.accumulate_grad_batches
        return 0.5 * (1.0 + cos(pi * min(n_batches / n_steps, 1.0)))

    scheduler: Any = (
        chosen.lr_schedule(optimizer)
        if callable(chosen.lr_schedule)
        else torch.optim.lr_scheduler.LambdaLR(optimizer, cosine)
    )
    return [optimizer], [{"scheduler": scheduler, "interval": "step"}]
