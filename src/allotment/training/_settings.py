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
    """The settings of a training run; a round is one batch and one step for every task.

    Attributes:
        rounds: How long to train.
        batch_size: Examples in a batch.
        learning_rate: Adam's, for weights.
        logit_learning_rate: Adam's, for the gates' logits; None: as `learning_rate`.
        decay: "cosine": both learning rates fall to 0 over the rounds; "none": they stay.
        average: Of averaged weights, the share kept at each step; 0: weights are not averaged.
        weight_decay: Coupled L2, on all but biases and logits.
        clip_norm: Largest norm of a run's whole gradient; None: any.
        budget: Largest share of open gates that costs nothing; None: all may be open.
        budget_weight: What the expected share above the budget is multiplied by.
        budget_scope: "task": the share of the batch's task; "global": that of all tasks.
        entropy_weight: What undecided gates cost at the end of training.
        entropy_power: The entropy's weight grows as (step / steps) ** entropy_power.
        connection_weight: What the expected share of open gates costs.
        disconnect_weight: What the probability that a layer has no open gate costs.
        crop: Training images get a border of so many zeros and are cut back at random.
        shift: Training images move by at most so many pixels.
        rotation: Training images turn by at most so many degrees.
        zoom: Training images grow or shrink by at most this share of their size.
        slant: Training images lean by at most this shift for each row from the middle.
        bend: Each of 5 x 5 points of training images moves by at most so many pixels.
        evaluate_every: Rounds between looks at validation, a multiple of 10; None: only at the end.
        schedule: "alternating": a step for each task; "joint": one step on a batch of every task.
        precision: Of products on a GPU: "float32", "tf32" or "bfloat16".
        capture: Record the step once and replay it; Python in a component runs once then.
        compile: Fuse the recorded step's operations: faster after a minute of warm-up.
        keep_best: With `evaluate_every`: keep the weights that did best on validation.
    """

    rounds: int = 1_000
    batch_size: int = 64
    learning_rate: float = 1e-3
    logit_learning_rate: float | None = None
    decay: str = "none"
    average: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None
    budget: float | None = None
    budget_weight: float = 1.0
    budget_scope: str = "task"
    entropy_weight: float = 0.0
    entropy_power: float = 1.0
    connection_weight: float = 0.0
    disconnect_weight: float = 0.0
    crop: int = 0
    shift: float = 0.0
    rotation: float = 0.0
    zoom: float = 0.0
    slant: float = 0.0
    bend: float = 0.0
    evaluate_every: int | None = None
    schedule: str = "alternating"
    precision: str = "float32"
    capture: bool = True
    compile: bool = False
    keep_best: bool = True

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
        for name in ("crop", "shift", "rotation", "zoom", "slant", "bend"):
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

    @property
    def depends_on_rounds(self) -> bool:
        """Whether the first steps would be others if there were more rounds, or fewer."""
        return self.decay != "none" or self.entropy_weight > 0.0

    def in_common(self) -> "TrainingSettings":
        """Returns the settings without what may differ between runs that train as one program."""
        return replace(self, budget=None, budget_weight=1.0)
