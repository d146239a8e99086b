"""What held-out examples gave, task by task, in all processes together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from lightning import Trainer
from torch import Tensor
from torch.utils._pytree import tree_map

from .._engine import widened
from .._schema import Evaluation
from ..tasks import Task, on_device
from ..training import has_classes, measured, n_known

_CPU = torch.device("cpu")


class Scores:
    """Adds up losses and right answers, and keeps outputs for the metrics of tasks."""

    def __init__(self, tasks: Sequence[Task], split: str, device: torch.device) -> None:
        self._tasks = tasks
        self._split = split
        # By task: loss, right answers (NaN where there are no classes), labels.
        self._sums = torch.zeros(len(tasks), 3, device=device, dtype=torch.float64)
        self._seen: dict[int, list[tuple[Tensor, Any]]] = {}

    def add(self, task: int, outputs: Tensor, targets: Any, loss: Tensor) -> None:
        """Adds a batch, given its mean loss."""
        own, n = self._tasks[task], n_known(targets)
        right = torch.full_like(loss, torch.nan)
        if has_classes(own, outputs):
            right = (outputs.argmax(dim=1) == targets).sum().to(loss.dtype)
        found = torch.stack([torch.where(n > 0, loss * n, 0.0), right, n.to(loss.dtype)])
        self._sums[task] += found
        if own.metrics:
            kept = (widened(outputs).cpu(), on_device(targets, _CPU))
            self._seen.setdefault(task, []).append(kept)

    def evaluation(self, trainer: Trainer) -> Evaluation | None:
        """Returns what all processes found, as `al.evaluate` does; None: no task has the split.

        All processes should ask for it.
        """
        has_split = np.array([task.held_out(self._split) is not None for task in self._tasks])
        if not has_split.any():
            return None
        sums = trainer.strategy.reduce(self._sums, reduce_op="sum")
        losses, right, n = sums.cpu().numpy().T
        with np.errstate(invalid="ignore"):
            losses, accuracies = (np.where(has_split, own / n, np.nan) for own in (losses, right))
        found = self._metrics(trainer)
        return Evaluation(
            split=self._split,
            losses=losses,
            accuracies=None if np.isnan(accuracies).all() else accuracies,
            metrics=found,
        )

    def _seen_by_all(self, trainer: Trainer) -> list[Any]:
        """Returns the kept outputs and targets of each process."""
        if trainer.world_size == 1:
            return [self._seen]
        parts = [None] * trainer.world_size
        torch.distributed.all_gather_object(parts, self._seen)
        return parts

    def _metrics(self, trainer: Trainer) -> dict[str, np.ndarray[Any, Any]]:
        """Returns the metrics of whole splits, ``[T]`` each; processes exchange their outputs."""
        names = dict.fromkeys(name for task in self._tasks for name in task.metrics)
        if not names:
            return {}
        parts = self._seen_by_all(trainer)
        found = {name: np.full(len(self._tasks), np.nan) for name in names}
        for index, task in enumerate(self._tasks):
            seen = [batch for part in parts for batch in part.get(index, ())]
            if seen:
                joined = tree_map(lambda *values: torch.cat(values), *seen)
                for name, value in measured(task, *joined).items():
                    found[name][index] = value
        return found


def named_values(found: Evaluation, tasks: Sequence[Task]) -> dict[str, float]:
    """Returns the numbers of an evaluation as they are logged: by task, and their means."""
    by_kind: dict[str, dict[str, float]] = {}
    for index, task in enumerate(tasks):
        if task.held_out(found.split) is None:
            continue
        own = {name: found.metrics[name][index] for name in task.metrics}
        if found.accuracies is not None and not np.isnan(found.accuracies[index]):
            own["accuracy"] = found.accuracies[index]
        for what, value in ({"loss": found.losses[index]} | own).items():
            by_kind.setdefault(what, {})[task.name] = float(value)
    named: dict[str, float] = {}
    for what, values in by_kind.items():
        named |= {f"{found.split}_{what}/{name}": value for name, value in values.items()}
        named[f"{found.split}_{what}"] = sum(values.values()) / len(values)
    return named
