"""Batch normalisations that several tasks with different inputs would share."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from .._engine import Run
from ..tasks import GeneratedDataset, Split, Task, two_examples

N_LOOKED_AT = 256  # examples of a task
# Inputs differ where means are a standard deviation apart, or one spread is twice the other.
FAR, WIDE = 1.0, 2.0


def warn_of_shared_statistics(run: Run) -> None:
    """Warns where a batch normalisation mixes the statistics of tasks whose inputs differ much.

    In training each batch is normalised by its own statistics; in evaluation all are by the running
    ones, which are a mixture that fits none of the tasks.
    """
    name = _shared_norm(run)
    if not name:
        return
    first, *others = [(task.name, _mean_and_spread(task)) for task in run.tasks]
    for other, found in others:
        if _differ(first[1], found):
            warnings.warn(
                "Tasks with different inputs should not share a batch normalisation, whose running "
                f"statistics would fit none of them. Found {name} for tasks {first[0]!r} and "
                f"{other!r}. `nn.GroupNorm`, or inputs of one mean and spread, would do.",
                stacklevel=4,
            )
            return


def _shared_norm(run: Run) -> str:
    """Returns a batch normalisation inside a component that several tasks may use, in words."""
    for number, layer in enumerate(run.network.modular_layers):
        users = (layer.allocation.matrix() > 0).sum(dim=0).tolist()  # [C]
        for position, component in enumerate(layer.components):
            norms = [
                m for m in component.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)
            ]
            is_shared = layer.allocation.is_learnt or users[position] > 1
            if (
                run.network.n_tasks > 1
                and is_shared
                and any(n.running_mean is not None for n in norms)
            ):
                return (
                    f"{type(norms[0]).__name__} in component {position} of modular layer {number}"
                )
    return ""


def _mean_and_spread(task: Task) -> tuple[float, float] | None:
    """Returns the mean and standard deviation of some inputs, where they are one array."""
    x: Any
    if isinstance(task.train, Split):
        x = task.train.fetch(torch.arange(min(N_LOOKED_AT, len(task.train))))[0]
    elif isinstance(task.train, GeneratedDataset):
        x = task.train.draw(N_LOOKED_AT, torch.Generator())[0]
    else:
        x = two_examples(task.train)[0]
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.numel() < N_LOOKED_AT:
        return None  # too few to tell, or no numbers
    return float(x.mean()), float(x.std())


def _differ(a: tuple[float, float] | None, b: tuple[float, float] | None) -> bool:
    if a is None or b is None:
        return False
    narrow, wide = sorted((a[1], b[1]))
    return abs(a[0] - b[0]) > FAR * wide or wide > WIDE * narrow
