"""Changes of how gates are trained, one for each cause of why they may lose; and such gates."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor

from ..allocation import FixedMatrix, GumbelMatrix

THIRD = 1 / 3
JOINT = "_joint"  # ends the names of methods that take a batch of every task at a time

NOISE = "Noise that never stops"
FITTED = "Gates fitted to training data"
CAPACITY = "Capacity taken from each task"
EARLY = "Decisions made too early"
BATCHES = "Batches of one task at a time"
SHARED_EARLY = "Components that never were a task's own"
TOGETHER = "Candidates for a default"

_NEVER = torch.iinfo(torch.int64).max
_OPEN = torch.tensor([10.0, -10.0])  # the two logits of a gate that is always open


class StagedMatrix(GumbelMatrix):
    """Gumbel-Matrix that changes its ways at given shares of all training batches.

    The shares are buffers, so that runs with different ones train as one program.

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        p_init: Probability of each gate to be open at the start.
        learnt_from: From here on gates learn; before, they are drawn as they start.
        learnt_until: From here on they stay as they are.
        drawn_until: From here on they are what evaluation uses, and no longer drawn.
        open_from: From here on all of them are open.
        own_until: Until here each task uses components of its own, as far as there are enough.
    """

    shares: Tensor  # of the batches, at which stages begin, in the order above
    stages: Tensor  # the batches that these are
    kept: Tensor  # the logits where learning ended, [T, C, 2]
    own: Tensor  # those that open a task's own components and no others, [T, C, 2]

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        p_init: float = 0.5,
        learnt_from: float = 0.0,
        learnt_until: float = inf,
        drawn_until: float = inf,
        open_from: float = inf,
        own_until: float = 0.0,
    ) -> None:
        super().__init__(n_tasks, n_components, p_init=p_init)
        shares = torch.tensor([learnt_from, learnt_until, drawn_until, open_from, own_until])
        self.register_buffer("shares", shares)
        self.register_buffer("stages", torch.tensor([0, _NEVER, _NEVER, _NEVER, 0]))
        self.register_buffer("kept", self.logits.detach().clone())
        is_own = own_components(n_tasks, n_components).unsqueeze(-1)
        self.register_buffer("own", torch.where(is_own, _OPEN, -_OPEN))

    @torch.no_grad()
    def expect(self, n_batches: int) -> None:
        ahead = [_NEVER if share == inf else round(share * n_batches) for share in self._shares()]
        self.stages.copy_(torch.tensor(ahead))

    def _shares(self) -> list[float]:
        found: list[float] = self.shares.tolist()
        return found

    def _begun(self) -> Tensor:
        """Returns which stages have begun, ``[5]``."""
        return self.n_batches >= self.stages

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        if self.training and noise is not None:
            _, _, is_quiet, is_open, is_shared = self._begun().unbind()
            is_given = is_quiet | is_open | ~is_shared
            noise = torch.where(is_given, 0.5, noise)  # a draw that changes nothing
        return super().weights(task, noise=noise)

    def _table(self) -> Tensor:
        learns, is_kept, _, is_open, is_shared = self._begun().unbind()
        table = torch.where(learns, self.logits, self.logits.detach())
        table = torch.where(is_kept, self.kept, table)
        table = torch.where(is_open, _OPEN.to(table), table)
        return torch.where(is_shared, table, self.own)

    def advance(self) -> None:
        """Takes note that a batch has passed, and of the gates where learning ends."""
        super().advance()
        is_now = self.n_batches == self.stages[1]
        self.kept = torch.where(is_now, self.logits.detach(), self.kept)


def own_components(n_tasks: int, n_components: int) -> Tensor:
    """Returns which components are each task's own, ``[T, C]``; with too few, tasks take turns.

    >>> own_components(2, 4).int()
    tensor([[1, 0, 1, 0],
            [0, 1, 0, 1]], dtype=torch.int32)
    >>> own_components(3, 2).int()
    tensor([[1, 0],
            [0, 1],
            [1, 0]], dtype=torch.int32)
    """
    task, component = torch.arange(n_tasks).unsqueeze(1), torch.arange(n_components)
    return component % n_tasks == task % n_components


def some_components(n_tasks: int, n_components: int, *, share: float) -> FixedMatrix:
    """Returns a shared bottom of the first components, this share of them.

    >>> some_components(2, 4, share=0.75).matrix()
    tensor([[1., 1., 1., 0.],
            [1., 1., 1., 0.]])
    """
    is_used = torch.arange(n_components) < round(share * n_components)
    return FixedMatrix(is_used.expand(n_tasks, n_components))


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
