"""The values that travel from training to the records, and from the records to the analysis."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, kw_only=True)
class RunHeader:
    """What is known of a run before its first step."""

    experiment: str
    condition: str  # which variant of the tasks, such as "rho=0"; empty where there is one only
    method: str
    seed: int
    task_names: tuple[str, ...]
    families: tuple[str, ...]  # one for each task where known, such as "pair 1"; else empty
    layer_sizes: tuple[int, ...]  # components in each modular layer
    component_names: tuple[str, ...]  # one for each component, layer after layer
    measure: str  # "loss" or "accuracy": what the experiment reports
    n_last_rounds: int  # a loss is reported as its mean over this many rounds at the end
    settings: dict[str, Any] = field(default_factory=dict)
    command: str = ""
    n_classes: tuple[int, ...] = ()  # one for each task where they classify; else empty


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One look at a run on held-out data, with most-likely gates."""

    split: str  # "validation" or "test"
    losses: Floats  # [T]
    accuracies: Floats | None  # [T], each 0 to 1, NaN for a regression; None where all are


@dataclass(frozen=True, kw_only=True)
class Point:
    """What one run did in a stretch of rounds."""

    round: int  # rounds finished at its end
    losses: Floats  # [T], each task's mean training loss over the stretch, penalties left out
    probabilities: Floats  # [T, C] at its end, the layers side by side
    share_active: float  # share of gates open under the evaluation rule, 0 to 1
    validation: Evaluation | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """All that runs which train together need to go on, at the end of a block of rounds."""

    round: int  # rounds finished
    n_points: int  # points told of each run
    seconds: float  # wall-clock time so far
    tensors: dict[str, Any] = field(repr=False)  # weights, optimizer, best-so-far, losses; CPU


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one run ended."""

    status: str  # "finished" or "failed"
    failed_step: int | None  # the task batch, counted from 0, whose loss was not finite
    rounds: int  # rounds done
    seconds: float  # wall-clock time of the program this run was part of
    n_together: int  # runs in that program
    final_loss: float  # mean over tasks and over the last rounds (`RunHeader.n_last_rounds`)
    best_round: int | None  # where the kept weights come from, if chosen on validation
    matrix: Floats  # [T, C], the evaluation allocation
    probabilities: Floats  # [T, C]
    validation: Evaluation | None
    test: Evaluation | None
    weights: dict[str, Any] = field(repr=False)  # the network's state dict, on the CPU
