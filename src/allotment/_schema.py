"""The values that travel from training to the records, and from there to the analysis."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Not `NDArray`, an alias that newer NumPys hide from those who ask for an annotation's class.
Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]

# What is reported of a run: what the number is called, and its unit.
MEASURES = {
    "accuracy": ("Test accuracy", "%"),
    "test_loss": ("Test loss", ""),
    "loss": ("Loss", ""),
    "score": ("Mean test score", ""),
}
HIGHER_IS_BETTER = ("accuracy", "score")


@dataclass(frozen=True, kw_only=True)
class RunHeader:
    """What is known of a run before its first step.

    Attributes:
        experiment: Name of the experiment.
        condition: Which variant of the tasks, such as "rho=0"; empty where there is one only.
        method: Name of the method.
        seed: Of every draw.
        task_names: One for each task.
        families: One for each task where known, such as "pair 1"; else empty.
        layer_sizes: Components in each modular layer.
        component_names: One for each component, layer after layer.
        measure: "loss", "test_loss", "accuracy" or "score": what the experiment reports.
        n_last_rounds: A loss is reported as its mean over this many rounds at the end.
        settings: All settings, as JSON has them.
        command: What was typed.
        n_classes: One for each task where they classify; else empty.
        component_kinds: What each component is, such as "conv3x3"; empty in older records.
        is_binary: Whether a task uses a component or does not; else it has shares of components.
        n_parameters: Of the whole network, allocations included; 0 in older records.
        n_operations: Floating-point operations of an optimizer step, forward and backward; 0 where
            they were not counted.
    """

    experiment: str
    condition: str
    method: str
    seed: int
    task_names: tuple[str, ...]
    families: tuple[str, ...]
    layer_sizes: tuple[int, ...]
    component_names: tuple[str, ...]
    measure: str
    n_last_rounds: int
    settings: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    n_classes: tuple[int, ...] = ()
    component_kinds: tuple[str, ...] = ()
    is_binary: bool = True
    n_parameters: int = 0
    n_operations: int = 0


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One check of a run on held-out data, with the gates of evaluation.

    Attributes:
        split: "validation" or "test".
        losses: Each task's mean loss, shape ``[T]``; NaN for a task without this split.
        accuracies: Each task's share of right answers, 0 to 1, ``[T]``; NaN for a regression, and
            None where all are.
        metrics: By name, what each task's own metric is, ``[T]``; NaN for a task without it.
    """

    split: str
    losses: Floats
    accuracies: Floats | None
    metrics: dict[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """What one run did in a logging interval of rounds.

    Attributes:
        round: Rounds finished at its end.
        losses: Each task's mean training loss over the interval, penalties left out, ``[T]``.
        probabilities: Of each gate to be open at its end, the layers side by side, ``[T, C]``.
        share_active: Share of gates open under the evaluation rule, 0 to 1.
        validation: A check on the validation splits, where one was made.
    """

    round: int
    losses: Floats
    probabilities: Floats
    share_active: float
    validation: Evaluation | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """All that runs which train together need to go on, at the end of a block of rounds.

    Attributes:
        round: Rounds finished.
        n_entries: Log entries told of each run.
        seconds: Wall-clock time so far.
        tensors: Weights, optimizer, best so far and losses, by name, on the CPU.
    """

    round: int
    n_entries: int
    seconds: float
    tensors: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one run ended; ``T`` tasks, ``C`` components, the layers side by side.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(2)], al.SharedBottom(1, 2))
    >>> network, x = al.MultiTaskNetwork(None, [layer], task_names=["sum"]), torch.randn(9, 8)
    >>> tasks, settings = [al.Task("sum", (x, x.sum(1)))], al.TrainingSettings(rounds=10)
    >>> *_, progress = al.train([al.Run(network, tasks, settings=settings)])
    >>> progress.outcomes[0].status, progress.outcomes[0].rounds
    ('finished', 10)

    Attributes:
        status: "finished" or "failed".
        failed_step: The task batch, counted from 0, whose loss was not finite, if any.
        rounds: Rounds done.
        seconds: Wall-clock time of the program this run was part of.
        n_together: Runs in that program.
        final_loss: Mean training loss over tasks and over the last rounds.
        best_round: Where the kept weights come from, if chosen on validation.
        matrix: Who uses what in evaluation, 0 or 1, shape ``[T, C]``.
        probabilities: Of each gate to be open, shape ``[T, C]``.
        validation: Losses and accuracies on the validation splits, where any task has one.
        test: The same on the test splits; they are looked at once, at the end.
        weights: The network's state dict, on the CPU.
        n_used: Parameters of the part of the network that each task uses in evaluation, ``[T]``;
            None where that was not recorded, or differs by example.
        failed_cause: Why its loss was not finite, where the examples are to blame.
        dead: By task, the modular layers that give zeros for it, since it uses nothing of them.
    """

    status: str
    failed_step: int | None
    rounds: int
    seconds: float
    n_together: int
    final_loss: float
    best_round: int | None
    matrix: Floats
    probabilities: Floats
    validation: Evaluation | None
    test: Evaluation | None
    weights: dict[str, Any] = field(repr=False)
    n_used: Floats | None = None
    failed_cause: str = ""
    dead: dict[str, list[int]] = field(default_factory=dict)  # not known in older records
