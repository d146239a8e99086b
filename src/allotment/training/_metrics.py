"""A task's own metrics, from the outputs and targets of a whole split."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from .._schema import Floats
from ..tasks import Metric, Task


def metrics_of(task: Task, seen: Sequence[tuple[Tensor, Any]]) -> dict[str, Floats]:
    """Returns the metrics by name, ``[R]`` each, from batches of outputs ``[R, N, ...]``."""
    if not task.metrics:
        return {}
    outputs = torch.cat([part for part, _ in seen], dim=1)  # [R, N, ...]
    targets = tree_map(lambda *parts: torch.cat(parts), *(part for _, part in seen))
    found = [measured(task, own, targets) for own in outputs]
    return {name: np.array([own[name] for own in found]) for name in task.metrics}


def measured(task: Task, outputs: Tensor, targets: Any) -> dict[str, float]:
    """Returns a task's own metrics of a whole split, by name; on the CPU.

    Args:
        task: With the metrics.
        outputs: Of the network, on a whole split.
        targets: Of the same examples.
    """
    found = {}
    for name, metric in task.metrics.items():
        try:
            found[name] = _measured(metric, outputs, targets)
        except Exception as error:
            error.add_note(f"This is the metric {name!r} of task {task.name!r}.")
            raise
    return found


def _measured(metric: Metric, outputs: Tensor, targets: Tensor) -> float:
    if hasattr(metric, "update") and hasattr(metric, "compute"):  # one of torchmetrics
        own: Any = deepcopy(metric)
        own.distributed_available_fn = lambda: False  # the split is whole: others add nothing
        own.reset()
        own.update(_shaped(outputs, targets), targets)
        value = own.compute()
    else:
        value = metric(outputs, targets)
    if isinstance(value, Tensor | np.ndarray) and list(value.shape) not in ([], [1]):
        raise ValueError(f"A metric should be one number. Found shape {list(value.shape)}.")
    if isinstance(value, Mapping):
        raise ValueError(f"A metric should be one number. Found several: {', '.join(value)}.")
    return float(value)


def _shaped(outputs: Tensor, targets: Any) -> Tensor:
    """Returns outputs ``[N, 1]`` as ``[N]`` where targets are; torchmetrics wants one shape."""
    is_column = isinstance(targets, Tensor) and outputs.shape == (*targets.shape, 1)
    return outputs.squeeze(-1) if is_column else outputs


def has_classes(task: Task, outputs: Tensor) -> bool:
    """Tells whether there is an output for each class: one logit alone has no largest."""
    return task.is_classification and (task.n_outputs == 1 or outputs.shape[1:2] != (1,))
