"""What is known of a run before its first step."""

from collections.abc import Sequence
from typing import Any

from .._engine import Run
from .._schema import RunHeader
from ..tasks import Task


def run_header(run: Run, *, measure: str = "", **told: Any) -> RunHeader:
    """Returns a run's header: what its tasks and its network say, and what is ``told`` beside.

    Without a ``measure`` it is the first of accuracy, test loss and training loss that all tasks
    have.

    >>> from torch import nn, randn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1), nn.Linear(8, 1)], al.GumbelMatrix(1, 2))
    >>> network = al.MultiTaskNetwork(None, [layer], task_names=["a"])
    >>> run = al.Run(network, [al.Task("a", (randn(9, 8), randn(9)))], seed=3)
    >>> run_header(run, experiment="mine", condition="", method="gumbel", n_last_rounds=10).seed
    3

    Args:
        run: What is trained.
        measure: What is reported of it; empty: what its tasks allow.
        told: What else the header says: experiment, method and so on.
    """
    tasks, network = run.tasks, run.network
    families = tuple(task.family for task in tasks)
    measure = measure or _measure_of(tasks)
    return RunHeader(
        seed=run.seed,
        task_names=tuple(task.name for task in tasks),
        families=families if all(families) else (),
        layer_sizes=network.layer_sizes,
        component_names=network.component_names,
        component_kinds=network.component_kinds,
        is_binary=all(layer.allocation.is_binary for layer in network.modular_layers),
        measure=measure,
        n_classes=tuple(task.n_outputs for task in tasks) if measure == "accuracy" else (),
        n_parameters=sum(parameter.numel() for parameter in network.parameters()),
        **told,
    )


def _measure_of(tasks: Sequence[Task]) -> str:
    """Returns what is reported of these tasks."""
    if any(task.held_out("test") is None for task in tasks):
        return "loss"
    return "accuracy" if all(task.is_classification for task in tasks) else "test_loss"
