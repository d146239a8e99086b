"""Training one network of one's own."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from .._engine import Run
from .._schema import Evaluation, Floats, LogEntry
from ..settings import TrainingSettings
from ..tasks import Task
from ._train import Progress, train


@dataclass(frozen=True)
class FitResult:
    """What training a network gave; ``T`` tasks, ``C`` components, the layers side by side.

    Attributes:
        embeddings: Who uses what, 0 or 1 or shares, ``[T, C]``; tasks in the network's order.
        probabilities: Of each gate to be open, shape ``[T, C]``.
        history: Losses and gates over time: every ten rounds, or about 300 entries of a long run.
        validation: Losses and accuracies on the validation splits, where all tasks have one.
        test: The same on the test splits; they are looked at once, at the end.
        best_round: Where the weights come from, if chosen on validation.
        failed_step: The task batch, counted from 0, whose loss was not finite, if any.
    """

    embeddings: Floats
    probabilities: Floats
    history: list[LogEntry]
    validation: Evaluation | None
    test: Evaluation | None
    best_round: int | None
    failed_step: int | None


def fit(
    network: nn.Module,
    tasks: Sequence[Task],
    settings: TrainingSettings = TrainingSettings(),
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> FitResult:
    """Trains ``network`` on ``tasks`` in place and returns what was learnt.

    It may be any module with modular layers in it; tasks are found by their names, where the
    network has them. A network that was trained before goes on: its annealing does not begin anew.
    The network is left in evaluation mode: a task then runs only what it uses, without draws.
    """
    history: list[LogEntry] = []
    run = Run(network, tasks, seed, settings)
    for progress in train([run], device=device):
        history += progress.entries or []
        if progress.outcomes is None:  # the last one repeats the round before it
            on_progress(progress)
    assert progress.outcomes is not None
    outcome = progress.outcomes[0]
    run.network.load_state_dict(outcome.weights)
    network.eval()
    if outcome.failed_step is not None:
        warnings.warn(
            f"The loss was not finite at task batch {outcome.failed_step}, and training was not "
            "either from there on. A smaller `learning_rate` or `clip_norm=1.0` may help.",
            stacklevel=2,
        )
    return FitResult(
        embeddings=outcome.matrix,
        probabilities=outcome.probabilities,
        history=history,
        validation=outcome.validation,
        test=outcome.test,
        best_round=outcome.best_round,
        failed_step=outcome.failed_step,
    )
