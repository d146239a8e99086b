"""Settings that belong together, each group a frozen value of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from math import inf
from typing import Any, TypeVar

import torch
from torch import Tensor

from .._checks import (
    check_at_least,
    check_choice,
    check_field_types,
    check_fraction,
    check_number,
    check_positive,
    check_share,
    nearest,
)

_LARGEST_CROP = 10_000  # larger borders only take memory
PRECISIONS = ["off", "tf32", "bfloat16"]
LR_SCHEDULES = ["constant", "cosine"]
COSTS = ["count", "parameters", "flops", "latency"]

# From parameter groups, as `torch.optim` takes them, to an optimizer.
OptimizerFactory = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]
# From an optimizer to one of torch's schedulers.
ScheduleFactory = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]


Settings = TypeVar("Settings")

ELSEWHERE = {"lr": "learning_rate", "epochs": "rounds", "steps": "rounds", "momentum": "optimizer"}


def explains_unknown(kind: type[Settings]) -> type[Settings]:
    """Lets a class of settings say where a name belongs that it does not have."""
    made = kind.__init__

    @wraps(made)
    def explained(self: Settings, *arguments: Any, **values: Any) -> None:
        known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        for name in values:
            if name not in known:
                raise TypeError(_where(name, kind.__name__, known))
        made(self, *arguments, **values)

    kind.__init__ = explained  # type: ignore[method-assign, assignment]
    return kind


def _where(name: str, kind: str, known: Sequence[str]) -> str:
    meant = ELSEWHERE.get(name, name)
    rule = f"{kind} has {', '.join(known)}. Found {name!r}."
    for group, other in GROUPS:
        if meant in [field.name for field in fields(other)] and meant not in known:
            return f"{rule} `{meant}` is in a group: {group}={other.__name__}({meant}=...)."
    return rule + (f" It is called `{meant}`." if meant in known else nearest(meant, known))


@explains_unknown
@dataclass(frozen=True, kw_only=True)
class Optimization:
    """How parameters change.

    >>> import allotment as al
    >>> rates = al.Optimization(learning_rate=0.01, allocation_learning_rate=0.03)
    >>> own = al.Optimization(optimizer=lambda groups: torch.optim.RAdam(groups))

    Attributes:
        learning_rate: For weights.
        allocation_learning_rate: For all that allocations learn; None: as `learning_rate`, at which
            gates may not settle. At least ``5 / rounds`` is a beginning.
        allocation_held_out: Share of each task's training examples, fixed by the seed, on which
            allocations learn, while all else learns on the others; 0: all learn on all. Each step
            takes a batch of both, and follows the gradient of each at the same weights, the
            first-order way of DARTS (Liu et al. 2019). Penalties and what allocations add to the
            loss count on held-out batches, whose losses `Allocation.observe` gets.
        lr_schedule: "constant"; "cosine": both rates fall to 0 over the rounds; or a function from
            an optimizer to one of torch's schedulers that follow the step alone.
        weight_decay: Coupled L2, on all but biases and allocations.
        clip_norm: Largest norm of the gradient of a run's loss and penalties, over all of its
            parameters; what `weight_decay` adds comes after. None: any.
        ema_decay: Of an exponential moving average of the weights, the share kept at each step; it
            is what is evaluated and kept. 0: no average.
        optimizer: None: Adam, fused; else a function from parameter groups to any optimizer of
            torch's, such as ``lambda groups: torch.optim.SGD(groups, momentum=0.9)``.
    """

    learning_rate: float = 1e-3
    allocation_learning_rate: float | None = None
    allocation_held_out: float = 0.0
    lr_schedule: str | ScheduleFactory = "constant"
    weight_decay: float = 0.0
    clip_norm: float | None = None
    ema_decay: float = 0.0
    optimizer: OptimizerFactory | None = None

    def __post_init__(self) -> None:
        check_field_types(self, leaving_out=("lr_schedule", "optimizer"))
        check_positive("learning_rate", self.learning_rate)
        if self.allocation_learning_rate is not None:
            check_positive("allocation_learning_rate", self.allocation_learning_rate)
        if self.clip_norm is not None:
            check_positive("clip_norm", self.clip_norm)
        check_at_least("weight_decay", self.weight_decay, 0.0)
        for name in ("allocation_held_out", "ema_decay"):
            check_share(name, getattr(self, name))
        if not callable(self.lr_schedule):
            check_choice("lr_schedule", self.lr_schedule, LR_SCHEDULES)
        if self.optimizer is not None and not callable(self.optimizer):
            raise TypeError(
                "`optimizer` should be None or a function from parameter groups to an optimizer. "
                f"Found `optimizer = {self.optimizer!r}`."
            )


@explains_unknown
@dataclass(frozen=True, kw_only=True)
class Penalties:
    """What is charged for gates, beside the loss.

    >>> import allotment as al
    >>> al.Penalties(budget=0.5, cost="flops").budget_weight
    1.0
    >>> al.Penalties(budget={"a": 0.25, "b": 0.75}).budgets(["a", "b", "c"])
    [0.25, 0.75, None]

    Attributes:
        budget: Largest share of open gates that costs nothing; None: all may be open. A budget for
            each task: a dict by their names, in which those left out have none, or a list in the
            order of the network's tasks.
        cost: What an open gate counts, in `budget` and `connection_weight`: "count", each the same;
            "parameters", "flops" or "latency" of its component, see `costs`; or a number for each
            component, the layers side by side. Latencies are measured once, before training.
        budget_weight: What the expected share above the budget is multiplied by.
        budget_scope: "task": the share of the batch's task; "global": that of all tasks.
        entropy_weight: What undecided gates cost at the end of training.
        entropy_power: The entropy's weight grows as (step / steps) ** entropy_power.
        connection_weight: What the expected share of open gates costs.
        disconnect_weight: What the probability that a layer has no open gate costs.
    """

    budget: float | Mapping[str, float] | Sequence[float] | None = None
    cost: str | Tensor | Sequence[float] = "count"
    budget_weight: float = 1.0
    budget_scope: str = "task"
    entropy_weight: float = 0.0
    entropy_power: float = 1.0
    connection_weight: float = 0.0
    disconnect_weight: float = 0.0

    def __post_init__(self) -> None:
        check_field_types(self, leaving_out=("budget", "cost"))
        self._check_budget()
        self._check_cost()
        check_choice("budget_scope", self.budget_scope, ["task", "global"])
        for name in ("budget_weight", "entropy_weight", "entropy_power"):
            check_at_least(name, getattr(self, name), 0.0)
        for name in ("connection_weight", "disconnect_weight"):
            check_at_least(name, getattr(self, name), 0.0)

    def _check_budget(self) -> None:
        """Raises unless budgets are shares; a list of them becomes a tuple."""
        budget = self.budget
        if isinstance(budget, Mapping):
            shares = {f"budget[{name!r}]": share for name, share in budget.items()}
            object.__setattr__(self, "budget", dict(budget))
        elif isinstance(budget, Sequence) and not isinstance(budget, str):
            shares = {f"budget[{place}]": share for place, share in enumerate(budget)}
            object.__setattr__(self, "budget", tuple(budget))
        else:
            shares = {} if budget is None else {"budget": budget}
        for name, share in shares.items():
            check_number(name, share)
            check_fraction(name, share)
        if self.has_budgets_by_task and self.budget_scope == "global":
            raise ValueError(
                '`budget_scope` should be "task" where tasks have budgets of their own. '
                'Found `budget_scope = "global"`.'
            )

    def _check_cost(self) -> None:
        """Raises unless costs are numbers that can be counted by; they become a tuple."""
        if isinstance(self.cost, str):
            check_choice("cost", self.cost, COSTS)
            return
        try:
            numbers = tuple(map(float, self.cost))
        except (TypeError, ValueError):
            numbers = ()
        if not numbers or not all(0 <= n < inf for n in numbers) or not sum(numbers):
            raise ValueError(
                f"`cost` should be one of {', '.join(map(repr, COSTS))}, or numbers from 0 on, one "
                f"for each component and not all 0. Found `cost = {self.cost!r}`."
            )
        object.__setattr__(self, "cost", numbers)

    @property
    def has_budgets_by_task(self) -> bool:
        """Whether each task has a budget of its own."""
        return isinstance(self.budget, Mapping | tuple)

    def budgets(self, task_names: Sequence[str]) -> list[float | None]:
        """Returns the budget of each task, None where it has none."""
        budget = self.budget
        if isinstance(budget, Mapping):
            unknown = [name for name in budget if name not in task_names]
            if unknown:
                rule = f"`budget` should be by tasks of the network, {list(task_names)}."
                raise ValueError(f"{rule} Found {unknown[0]!r}.")
            return [budget.get(name) for name in task_names]
        if isinstance(budget, Sequence):
            if len(budget) != len(task_names):
                raise ValueError(
                    "`budget` should be one number, or one for each task. "
                    f"Found {len(budget)} for {len(task_names)} tasks."
                )
            return list(budget)
        return [budget] * len(task_names)


@explains_unknown
@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """How training images are changed at random, each time anew.

    >>> import allotment as al
    >>> al.Augmentation(crop=2, rotation=10.0).rotation
    10.0

    Attributes:
        crop: They get a border of so many zeros and are cut back at a random place.
        shift: They move by at most so many pixels.
        rotation: They turn by at most so many degrees.
        zoom: They grow or shrink by at most this share of their size.
        shear: They lean by at most this shift for each row from the middle.
        elastic: Each of 5 x 5 points moves by at most so many pixels, and the rest follows.
    """

    crop: int = 0
    shift: float = 0.0
    rotation: float = 0.0
    zoom: float = 0.0
    shear: float = 0.0
    elastic: float = 0.0

    def __post_init__(self) -> None:
        check_field_types(self)
        for name in ("crop", "shift", "rotation", "zoom", "shear", "elastic"):
            check_at_least(name, getattr(self, name), 0)
        if self.crop > _LARGEST_CROP:
            raise ValueError(
                f"`crop` should be at most {_LARGEST_CROP} pixels. Found `crop = {self.crop}`."
            )
        if self.zoom >= 1:
            raise ValueError(f"`zoom` should be below 1. Found `zoom = {self.zoom}`.")


@explains_unknown
@dataclass(frozen=True, kw_only=True)
class Execution:
    """How steps are computed; `plan` says what came of it.

    >>> import allotment as al
    >>> al.Execution(mixed_precision="bfloat16").mixed_precision
    'bfloat16'

    Attributes:
        mixed_precision: On a GPU: "off"; "tf32", shorter products; "bfloat16", 16 bits. A CPU
            computes in full precision.
        trace: Record the step once and replay it; Python in a component runs once then. None: where
            there are enough steps to gain from it.
        compile: Fuse the recorded operations: faster after a minute of warm-up. Where batches are
            fetched, and no step can be recorded, fuse the network's passes.
        accumulate: Compute a batch in so many pieces, one after another, which takes less memory;
            where batches are fetched, take so many for a step. Gradients are averaged. It is one
            batch for annealing and all else, and its pieces share their gates' draws.
    """

    mixed_precision: str = "off"
    trace: bool | None = None
    compile: bool = False
    accumulate: int = 1

    def __post_init__(self) -> None:
        check_field_types(self)
        check_at_least("accumulate", self.accumulate, 1)
        check_choice("mixed_precision", self.mixed_precision, PRECISIONS)


GROUPS: Sequence[tuple[str, type]] = (
    ("optimization", Optimization),
    ("penalties", Penalties),
    ("augmentation", Augmentation),
    ("execution", Execution),
)
