"""Changes of how gates are trained: each takes away, or adds, a cause of why they may lose."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

THIRD = 1 / 3
JOINT = "_joint"  # ends the names of methods that take a batch of every task at a time

NOISE = "Noise that never stops"
FITTED = "Gates fitted to training data"
CAPACITY = "Capacity taken from each task"
EARLY = "Decisions made too early"
BATCHES = "Batches of one task at a time"
SHARED_EARLY = "Components that never were a task's own"
TOGETHER = "Candidates for a default"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of how gates are trained, and what it is compared with.

    Attributes:
        name: Of the method.
        label: What is changed.
        cause: That it takes away, or adds.
        gates: Options of the gates.
        training: Settings, where they differ.
        slowness: What the learning rate of gates is divided by.
        beside: The method that it is one change of.
    """

    name: str
    label: str
    cause: str
    gates: Mapping[str, Any]
    training: Mapping[str, Any] | None = None
    slowness: float = 1.0
    beside: str = "gumbel"


SETTLED = {"learnt_until": 1 - THIRD, "drawn_until": 1 - THIRD}
PLAIN = Change(name="gumbel", label="Gumbel-Matrix", cause="", gates={})
NARROW = "narrow"  # a shared bottom, compared with the whole one
CHANGES = (
    Change(
        name="settled", label="Gates stand still for the last third", cause=NOISE, gates=SETTLED
    ),
    Change(
        name="quiet",
        label="Gates are not drawn in the last third, and learn on",
        cause=NOISE,
        gates={"drawn_until": 1 - THIRD},
    ),
    Change(
        name="held_out",
        label="Gates learn on a fifth of the examples, weights on the others",
        cause=FITTED,
        gates={},
        training={"allocation_held_out": 0.2},
    ),
    Change(
        name="opened",
        label="All gates are open for the last third",
        cause=CAPACITY,
        gates={"open_from": 1 - THIRD},
    ),
    Change(
        name="late",
        label="Gates do not learn in the first third",
        cause=EARLY,
        gates={"learnt_from": THIRD},
    ),
    Change(
        name="slow", label="Gates learn at a third of the rate", cause=EARLY, gates={}, slowness=3
    ),
    Change(
        name=f"gumbel{JOINT}",
        label="A step takes a batch of every task",
        cause=BATCHES,
        gates={},
        training={"schedule": "joint"},
    ),
    Change(
        name="own_first",
        label="Each task trains components of its own for the first tenth",
        cause=SHARED_EARLY,
        gates={"own_until": 0.1},
    ),
    Change(
        name="settled_open",
        label="Still for the last third, from 0.8 open",
        cause=TOGETHER,
        gates={**SETTLED, "p_init": 0.8},
    ),
    Change(
        name="settled_late",
        label="The same, and no learning in the first third",
        cause=TOGETHER,
        gates={**SETTLED, "p_init": 0.8, "learnt_from": THIRD},
    ),
    Change(
        name="settled_slow",
        label="The same, and a third of the rate throughout",
        cause=TOGETHER,
        gates={**SETTLED, "p_init": 0.8},
        slowness=3,
    ),
)
