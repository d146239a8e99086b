"""How to train, in one place."""

from dataclasses import dataclass, fields, replace
from typing import Any

from .._checks import (
    check_at_least,
    check_choice,
    check_count,
    check_field_types,
    described,
    nearest,
)
from ._balancing import LossBalancing
from ._groups import (
    ELSEWHERE,
    GROUPS,
    Augmentation,
    Execution,
    Optimization,
    Penalties,
    explains_unknown,
)

ROUNDS_PER_BLOCK = 10  # random draws are made for so many rounds at a time

# The names and values of version 0.1, in whose records all settings stand side by side.
OLD_NAMES = {
    "logit_learning_rate": "allocation_learning_rate",
    "decay": "lr_schedule",
    "average": "ema_decay",
    "slant": "shear",
    "bend": "elastic",
    "precision": "mixed_precision",
    "capture": "trace",
}
_LEAST = {"rounds": 1, "batch_size": 1, "evaluate_every": 1, "sampling_power": 0.0, "patience": 1}
_OLD_VALUES = {("decay", "none"): "constant", ("precision", "float32"): "off"}


@explains_unknown
@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The settings of a training run; a round is one batch for every task.

    >>> import allotment as al
    >>> settings = al.TrainingSettings(rounds=200, optimization=al.Optimization(learning_rate=0.01))
    >>> settings.changed(rounds=400, budget=0.5).penalties.budget  # the group is found by the name
    0.5

    Attributes:
        rounds: How long to train.
        batch_size: Examples in a batch.
        schedule: "alternating": an optimizer step for each task; "joint": one for a batch of every
            task; "multi_label": one for a batch of examples that all tasks share, each with a loss
            on those whose label it knows.
        sampling_power: A task is drawn as often as its number of examples to this power says, times
            its own `sampling`. 0: all alike; 1: in proportion; between, what is large counts less.
        evaluate_every: Rounds between validation checks, a multiple of 10; None: only at the end.
        keep_best: With `evaluate_every`: keep the weights that did best on validation: by accuracy,
            or by loss where not all tasks classify; or by a metric's name, such as "auc", or
            "-mae" for the smallest.
        patience: With `evaluate_every`: end after so many checks without a better one.
        loss_balancing: How the losses of tasks are weighed against each other; None: as they are.
        optimization: How parameters change.
        penalties: What is charged for gates.
        augmentation: How training images are changed at random.
        execution: How steps are computed.
    """

    rounds: int = 1_000
    batch_size: int = 64
    schedule: str = "alternating"
    sampling_power: float = 0.0
    evaluate_every: int | None = None
    keep_best: bool | str = True
    patience: int | None = None
    loss_balancing: LossBalancing | None = None
    optimization: Optimization = Optimization()
    penalties: Penalties = Penalties()
    augmentation: Augmentation = Augmentation()
    execution: Execution = Execution()

    def __post_init__(self) -> None:
        self._check_types()
        for name, least in _LEAST.items():
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), least)
        check_count("batch_size", self.batch_size)  # below what a tensor's size can be
        check_choice("schedule", self.schedule, ["alternating", "joint", "multi_label"])
        self._check_together()

    def _check_types(self) -> None:
        objects: dict[str, Any] = {**dict(GROUPS), "loss_balancing": LossBalancing | None}
        check_field_types(self, leaving_out=tuple(objects))
        for name, kind in objects.items():
            if not isinstance(getattr(self, name), kind):
                wanted = getattr(kind, "__name__", "LossBalancing or None")
                found = described(getattr(self, name))
                raise TypeError(f"`{name}` should be {wanted}. Found {found}.")

    def _check_together(self) -> None:
        """Raises unless the settings go with each other."""
        if self.batch_size % self.execution.accumulate:
            raise ValueError(
                "`batch_size` should be a multiple of `accumulate`. "
                f"Found {self.batch_size} and {self.execution.accumulate}."
            )
        if (self.evaluate_every or 0) % ROUNDS_PER_BLOCK:
            raise ValueError(
                f"`evaluate_every` should be a multiple of {ROUNDS_PER_BLOCK}. "
                f"Found `evaluate_every = {self.evaluate_every}`."
            )
        if self.patience and not (self.evaluate_every and self.keep_best):
            raise ValueError(
                "`patience` should come with `evaluate_every` and `keep_best`. Found "
                f"`evaluate_every = {self.evaluate_every}`, `keep_best = {self.keep_best}`."
            )
        self._check_held_out()
        needs_joint = self.loss_balancing is not None and self.loss_balancing.needs_gradients
        if needs_joint and not self.is_joint:
            raise ValueError(
                '`schedule` should be "joint" for a loss balancing that sees the gradients of '
                f"all tasks. Found `schedule = {self.schedule!r}`."
            )

    def _check_held_out(self) -> None:
        balancing, share = self.loss_balancing, self.optimization.allocation_held_out
        found = {
            f"`accumulate = {self.execution.accumulate}`": self.execution.accumulate > 1,
            f"`schedule = {self.schedule!r}`": self.schedule == "multi_label",
            "a `loss_balancing` that does": balancing is not None and balancing.needs_gradients,
        }
        for what, is_there in found.items():
            if share and is_there:
                raise ValueError(
                    "`allocation_held_out` should be 0 where a batch is computed in pieces, shared "
                    f"by tasks, or gives gradients to be combined. Found {share} and {what}."
                )

    @property
    def is_joint(self) -> bool:
        """Whether an optimizer step takes a batch of every task."""
        return self.schedule != "alternating"

    @property
    def best_by(self) -> str:
        """What `keep_best` goes by, where it names a measure; else empty."""
        return self.keep_best if isinstance(self.keep_best, str) else ""

    @property
    def depends_on_rounds(self) -> bool:
        """Whether the first steps would be others if there were more rounds, or fewer."""
        return self.optimization.lr_schedule != "constant" or self.penalties.entropy_weight > 0.0

    def in_common(self) -> "TrainingSettings":
        """Returns the settings without what may differ between runs that train as one program."""
        penalties = replace(self.penalties, budget=None, budget_weight=1.0)
        rates = replace(self.optimization, learning_rate=1.0, allocation_learning_rate=None)
        return replace(self, penalties=penalties, optimization=rates)

    def changed(self, **values: Any) -> "TrainingSettings":
        """Returns the settings with other values for fields of any group, each by its own name.

        >>> TrainingSettings().changed(rounds=20, learning_rate=0.01).optimization.learning_rate
        0.01
        """
        own: dict[str, Any] = {}
        inside: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            group = group_of(name)
            (inside.setdefault(group, {}) if group else own)[name] = value
        for group, changes in inside.items():
            own[group] = replace(own.get(group, getattr(self, group)), **changes)
        return replace(self, **own)


def group_of(name: str) -> str:
    """Returns the group in which a setting stands; empty for the outermost."""
    if name in (field.name for field in fields(TrainingSettings)):
        return ""
    for group, kind in GROUPS:
        if name in (field.name for field in fields(kind)):
            return group
    known = setting_names()
    if name in OLD_NAMES:
        meant = f" It is called `{OLD_NAMES[name]}` now."
    else:
        meant = f" It is called `{ELSEWHERE[name]}`." if name in ELSEWHERE else nearest(name, known)
    raise ValueError(f"The settings are {', '.join(known)}. Found {name!r}.{meant}")


def setting_names() -> list[str]:
    """Returns the names of all single settings, of every group.

    >>> setting_names()[:3]
    ['rounds', 'batch_size', 'schedule']
    """
    groups = [name for name, _ in GROUPS]
    own = [field.name for field in fields(TrainingSettings) if field.name not in groups]
    return own + [field.name for _, kind in GROUPS for field in fields(kind)]


def from_record(values: dict[str, Any]) -> dict[str, Any]:
    """Returns recorded settings by group, also where a record is older than the groups."""
    if "optimization" in values:
        return values
    found: dict[str, Any] = {}
    for old, value in values.items():
        name = OLD_NAMES.get(old, old)
        group = group_of(name)
        (found.setdefault(group, {}) if group else found)[name] = _OLD_VALUES.get(
            (old, value) if isinstance(value, str) else ("", ""), value
        )
    return found
