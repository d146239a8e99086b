"""How to train, in one place."""

from dataclasses import dataclass, replace

from .._checks import (
    check_at_least,
    check_choice,
    check_field_types,
    check_fraction,
    check_positive,
)
from ._precision import PRECISIONS

ROUNDS_PER_BLOCK = 10  # random draws are made for so many rounds at a time


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of a training run; a round is one batch and one step for every task."""

    rounds: int = 1_000
    batch_size: int = 64
    learning_rate: float = 1e-3
    logit_learning_rate: float | None = None  # None: as `learning_rate`
    decay: str = "none"  # "cosine": both learning rates fall to 0 over the rounds
    average: float = 0.0  # of averaged weights, the share kept at each step; 0: not averaged
    weight_decay: float = 0.0  # coupled L2, on all but biases and logits
    clip_norm: float | None = None  # largest norm of a run's whole gradient
    budget: float | None = None  # largest share of open gates that costs nothing
    budget_weight: float = 1.0
    budget_scope: str = "task"  # "task": the share of the batch's task; "global": of all tasks
    entropy_weight: float = 0.0
    entropy_power: float = 1.0  # the entropy's weight grows as (step / steps) ** entropy_power
    connection_weight: float = 0.0
    disconnect_weight: float = 0.0
    crop: int = 0  # training images get a border of so many zeros and are cut back at random
    shift: float = 0.0  # training images move by at most so many pixels
    rotation: float = 0.0  # training images turn by at most so many degrees
    zoom: float = 0.0  # training images grow or shrink by at most this share of their size
    evaluate_every: int | None = None  # rounds between looks at the validation split
    schedule: str = "alternating"  # "joint": one step a round, on one batch of every task
    precision: str = "float32"  # or "tf32", "bfloat16": of products on a GPU
    capture: bool = True  # record the step once and replay it; Python in a component runs once then
    compile: bool = False  # fuse the recorded step's operations: faster after a minute of warm-up
    keep_best: bool = True  # with `evaluate_every`: keep the weights that did best on validation

    def __post_init__(self) -> None:
        check_field_types(self)
        check_at_least("rounds", self.rounds, 1)
        check_at_least("batch_size", self.batch_size, 1)
        check_positive("learning_rate", self.learning_rate)
        if self.logit_learning_rate is not None:
            check_positive("logit_learning_rate", self.logit_learning_rate)
        if self.clip_norm is not None:
            check_positive("clip_norm", self.clip_norm)
        if self.budget is not None:
            check_fraction("budget", self.budget)
        check_choice("budget_scope", self.budget_scope, ["task", "global"])
        if not 0.0 <= self.average < 1.0:
            raise ValueError(f"`average` should be in [0, 1). Found `average = {self.average}`.")
        check_choice("decay", self.decay, ["none", "cosine"])
        check_choice("schedule", self.schedule, ["alternating", "joint"])
        check_choice("precision", self.precision, PRECISIONS)
        for name in ("weight_decay", "budget_weight", "entropy_weight", "entropy_power"):
            check_at_least(name, getattr(self, name), 0.0)
        for name in ("connection_weight", "disconnect_weight"):
            check_at_least(name, getattr(self, name), 0.0)
        for name in ("crop", "shift", "rotation", "zoom"):
            check_at_least(name, getattr(self, name), 0)
        if self.zoom >= 1:
            raise ValueError(f"`zoom` should be below 1. Found `zoom = {self.zoom}`.")
        if self.evaluate_every is not None:
            check_at_least("evaluate_every", self.evaluate_every, 1)
            if self.evaluate_every % ROUNDS_PER_BLOCK:
                raise ValueError(
                    f"`evaluate_every` should be a multiple of {ROUNDS_PER_BLOCK}. "
                    f"Found `evaluate_every = {self.evaluate_every}`."
                )

    def in_common(self) -> "TrainingSettings":
        """Returns the settings without what may differ between runs that train as one program."""
        return replace(self, budget=None, budget_weight=1.0)
