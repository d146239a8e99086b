"""What runs that train together have done; shown as a bar, and told to a logger."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from torch import nn

from .._schema import Floats, LogEntry, Outcome, TrainingState


def _no_network(run: int) -> nn.Module:  # with a name, so that a progress can be pickled
    return nn.Module()


def _go_on() -> None:
    pass


@dataclass(frozen=True)
class Progress:
    """What ``R`` runs that train together have done.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(2)], al.SharedBottom(1, 2))
    >>> network, x = al.MultiTaskNetwork(None, [layer], task_names=["sum"]), torch.randn(9, 8)
    >>> rounds = []
    >>> def look(progress):
    ...     rounds.append(progress.round)
    ...     if progress.round == 20:
    ...         progress.stop()
    >>> settings = al.TrainingSettings(rounds=100)
    >>> result = al.fit(network, [al.Task("sum", (x, x.sum(1)))], settings, on_progress=look)
    >>> rounds[:2], result.rounds
    ([10, 20], 20)

    Attributes:
        round: Rounds finished.
        losses: Each run's mean training loss over the last block of ten rounds, shape ``[R]``.
        failed: For each run the task batch at which its loss was not finite, or None.
        entries: Losses and gates, one for each run; None inside a logging interval.
        dead: With entries: for each run the tasks that are left with nothing, and of which layers.
            A warning tells of each task when it is first seen.
        outcomes: How each run ended, in the very last progress; None before.
        state: Copies all that is needed to go on from here; call it before asking for the next
            progress. None where all rounds are done.
        network: Returns a run's model as it is now, a copy; give it the run's number.
        stop: Ends the training here, with what was learnt so far.
    """

    round: int
    losses: Floats
    failed: list[int | None]
    entries: list[LogEntry] | None = None
    dead: list[dict[str, list[int]]] | None = None
    outcomes: list[Outcome] | None = None
    state: Callable[[], TrainingState] | None = field(default=None, repr=False)
    network: Callable[[int], nn.Module] = field(default=_no_network, repr=False)
    stop: Callable[[], None] = field(default=_go_on, repr=False)


@contextmanager
def bar(n_rounds: int, show: bool | None) -> Iterator[Callable[[Progress], None]]:
    """Gives a function that shows progress: in a terminal or a notebook, or as ``show`` says."""
    wanted = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars
    except ImportError:  # training needs torch and NumPy alone
        wanted = False
    if not wanted:
        yield lambda progress: None
        return
    columns = (
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("rounds  {task.description}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        number = bars.add_task("", total=n_rounds)

        def update(progress: Progress) -> None:
            losses = progress.losses[np.isfinite(progress.losses)]
            told = f"loss {losses.mean():.4g}" if len(losses) else "no finite loss"
            bars.update(number, completed=progress.round, description=told)

        yield update


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
