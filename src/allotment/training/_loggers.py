"""What a training does, told to a logger such as those of Lightning."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ._train import Progress


class MetricsLogger(Protocol):
    """What a logger needs: Lightning's for TensorBoard, W&B, MLflow and CSV files have it."""

    def log_metrics(self, metrics: dict[str, Any], step: int) -> Any: ...


def log_to(logger: MetricsLogger, task_names: Sequence[str]) -> Callable[[Progress], None]:
    """Returns a function for ``fit(on_progress=...)`` that logs losses and open gates.

    Where there was a validation check, its losses, accuracies and metrics are logged too. A step of
    the logger is a round. ``task_names`` are in the order of the network.

    >>> from torch import nn, randn
    >>> from allotment import GumbelMatrix, ModularLayer, MultiTaskNetwork, Task, TrainingSettings
    >>> from allotment import fit
    >>> class Printing:
    ...     def log_metrics(self, metrics, step):
    ...         print(step, *metrics)
    >>> layer = ModularLayer([nn.Linear(8, 1), nn.Linear(8, 1)], GumbelMatrix(2, 2))
    >>> network = MultiTaskNetwork(None, [layer], task_names=["a", "b"])
    >>> tasks = [Task(name, (randn(9, 8), randn(9))) for name in "ab"]
    >>> log = log_to(Printing(), network.task_names)
    >>> result = fit(network, tasks, TrainingSettings(rounds=20), on_progress=log)
    10 train_loss/a train_loss/b gates_open
    20 train_loss/a train_loss/b gates_open

    Args:
        logger: Anything with ``log_metrics(metrics, step)``, such as Lightning's loggers.
        task_names: The tasks' names, in the network's order.
    """

    def log(progress: Progress) -> None:
        for entry in progress.entries or ():
            values = {"train_loss": entry.losses}
            if entry.validation is not None:
                values["validation_loss"] = entry.validation.losses
                if entry.validation.accuracies is not None:
                    values["validation_accuracy"] = entry.validation.accuracies
                for metric, numbers in entry.validation.metrics.items():
                    values[f"validation_{metric}"] = numbers
            metrics = {
                f"{what}/{name}": float(value)
                for what, numbers in values.items()
                for name, value in zip(task_names, numbers, strict=True)
                if value == value  # a regression has no accuracy, and a task not all metrics
            }
            logger.log_metrics(metrics | {"gates_open": entry.share_active}, step=entry.round)

    return log
