"""The optimizer of a training under Lightning, and its learning-rate schedule."""

from math import cos, pi
from typing import Any

import torch
from lightning import Trainer

from .._engine import parameter_groups
from ..modules import TaskNetwork
from ..settings import Optimization


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
