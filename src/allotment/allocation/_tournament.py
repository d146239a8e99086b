"""Ways of sharing that evolve: of two members of a population the better one stays."""

from abc import abstractmethod

import torch
from torch import Tensor

from .._checks import check_choice, check_count
from ._base import Allocation, row
from ._fixed import REDUCTIONS
from ._gumbel import averaged

_MASK = 0xFFFFFFFF  # hashes have 32 bits


class Tournament(Allocation):
    """A population for each task, of which two members at a time compete.

    A member is one layer's part of a way through the network: ``W`` whole numbers, of which a
    subclass makes gates. The batches of a task go to its two contestants in turn. After ``n_each``
    batches of both, the one with the smaller mean loss wins, as `observe` is told: on held-out
    examples where `Optimization.allocation_held_out` is set, else on those that the weights learn
    on. A changed copy of the winner takes the place of the loser, and two others are drawn.
    Evaluation uses the member with the smallest loss in the last tournament that it won.

    All layers of a network decide as one, though each has its own allocation: whose turn it is
    follows from the count of batches, who competes from a hash of the count of tournaments, and
    the losses that decide are the same for all layers. They should have the same options.

    No generator is used while training, so that runs can be computed together and go on from a
    checkpoint: draws are hashes of counts and of a number that each layer draws when it is made.
    """

    axes = (
        *(("members", "T"), ("contestants", "T"), ("losses", "T")),
        *(("counts", "T"), ("n_over", "T"), ("fitness", "T")),
    )
    members: Tensor  # [T, P, W]
    contestants: Tensor  # [T, 2], places in the population
    losses: Tensor  # [T, 2], sums over this tournament
    counts: Tensor  # [T], batches of this tournament
    n_over: Tensor  # [T], tournaments before this one
    fitness: Tensor  # [T, P], mean losses when members last won; infinite before
    salt: Tensor  # []

    def __init__(
        self, members: Tensor, n_components: int, *, n_each: int, n_layers: int, reduce: str
    ) -> None:
        n_tasks = len(members)
        super().__init__(n_tasks, n_components)
        for name, value in (("n_each", n_each), ("n_layers", n_layers)):
            check_count(name, value)
        check_choice("reduce", reduce, REDUCTIONS)
        self.n_each, self.n_layers, self.reduce = n_each, n_layers, reduce
        self.register_buffer("members", members)
        self.register_buffer("losses", torch.zeros(n_tasks, 2))
        for name in ("counts", "n_over"):
            self.register_buffer(name, torch.zeros(n_tasks, dtype=torch.int64))
        self.register_buffer("salt", torch.randint(2**31, ()))
        self.register_buffer("contestants", self._drawn())
        fitness = torch.full(members.shape[:2], torch.inf)
        fitness[:, 0] = torch.finfo(fitness.dtype).max  # the best, as long as there is no other
        self.register_buffer("fitness", fitness)

    @abstractmethod
    def opened(self, members: Tensor) -> Tensor:
        """Returns which components members ``[..., W]`` use, true or false, ``[..., C]``."""

    @abstractmethod
    def mutated(self, members: Tensor) -> Tensor:
        """Returns changed copies of a member of each task, ``[T, W]``."""

    def new_row(self, name: str, table: Tensor) -> Tensor:
        if name == "contestants":  # the same in all layers
            return torch.arange(2, device=table.device)
        if name == "fitness":  # the first is the best, as long as there is no other
            row = torch.full_like(table[0], torch.inf)
            row[0] = torch.finfo(row.dtype).max
            return row
        return super().new_row(name, table)

    @property
    def is_learnt(self) -> bool:
        return True

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        if self.training:
            place = row(row(self.contestants, task), row(self.counts, task) % 2)
        else:
            place = row(self.fitness, task).argmin()
        gates = self._gates(row(row(self.members, task), place))
        return averaged(gates) if self.reduce == "mean" else gates

    def matrix(self) -> Tensor:
        return self._gates(_picked(self.members, self.fitness.argmin(dim=1)))

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        """Returns the share of a task's members that use a component."""
        members = self.members if task is None else row(self.members, task)
        return self._gates(members).mean(dim=-2)

    def _gates(self, members: Tensor) -> Tensor:
        return self.opened(members).to(self.losses.dtype)

    @torch.no_grad()
    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        places = torch.arange(max(self.n_tasks, 2), device=self.counts.device)
        is_own = places[: self.n_tasks] == task
        is_here = is_own.unsqueeze(1) & (places[:2] == (self.counts % 2).unsqueeze(1))
        self.losses = self.losses + torch.where(is_here, loss, 0.0).to(self.losses.dtype)
        self.counts = self.counts + is_own
        self._decide(self.counts >= 2 * self.n_each)

    def _decide(self, is_over: Tensor) -> None:
        """Ends the tournaments of some tasks, ``[T]`` true or false, and begins the next."""
        means = self.losses.nan_to_num(nan=torch.inf) / self.n_each
        second = (means[:, 1] < means[:, 0]).long()
        winners = _picked(self.contestants, second)
        losers = _picked(self.contestants, 1 - second)
        self.n_over = self.n_over + is_over
        copies = self.mutated(_picked(self.members, winners)).unsqueeze(1)  # [T, 1, W]
        places = torch.arange(self.members.shape[1], device=losers.device)
        has_won, has_lost = (  # [T, P]
            is_over.unsqueeze(1) & (places == own.unsqueeze(1)) for own in (winners, losers)
        )
        self.members = torch.where(has_lost.unsqueeze(2), copies, self.members)
        fitness = torch.where(has_won, means.amin(dim=1, keepdim=True), self.fitness)
        self.fitness = torch.where(has_lost, torch.inf, fitness)
        self.contestants = torch.where(is_over.unsqueeze(1), self._drawn(), self.contestants)
        self.losses = torch.where(is_over.unsqueeze(1), 0.0, self.losses)
        self.counts = torch.where(is_over, 0, self.counts)

    def _drawn(self) -> Tensor:
        """Returns two different members of each task to compete next, the same in all layers."""
        n, tasks = self.members.shape[1], self._tasks
        first = hashed(tasks, self.n_over, 0) % n
        return torch.stack([first, (first + 1 + hashed(tasks, self.n_over, 1) % (n - 1)) % n], 1)

    @property
    def _tasks(self) -> Tensor:
        return torch.arange(self.n_tasks, device=self.counts.device)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, n_each={self.n_each}"


def hashed(*keys: Tensor | int) -> Tensor:
    """Returns a number from 0 to 2**32 - 1 that follows from whole numbers, as if drawn at random.

    Keys broadcast against each other. It is a multiply and shift mix of 32 bits; factors are below
    2**31, so that no product leaves the 63 bits of a tensor's numbers.
    """
    state: Tensor = torch.as_tensor(keys[0])
    state = torch.zeros_like(state)
    for key in keys:
        state = ((state ^ (key & _MASK)) + 0x1E3779B9) & _MASK
        for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
            state = ((state ^ (state >> shift)) * factor) & _MASK
        state = state ^ (state >> 15)
    return state


def _picked(values: Tensor, places: Tensor) -> Tensor:
    """Returns ``values[t, places[t]]`` of every task."""
    index = places.view(-1, *[1] * (values.ndim - 1)).expand(-1, 1, *values.shape[2:])
    return values.gather(1, index).squeeze(1)
