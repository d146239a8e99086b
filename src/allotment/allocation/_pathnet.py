"""Paths that evolve by tournaments (PathNet)."""

import torch
from torch import Tensor

from .._checks import check_count
from ._base import check_counts
from ._tournament import Tournament, hashed


class PathNet(Tournament):
    """Paths through the components, evolved while these train.

    From Fernando et al. 2017, "PathNet: Evolution Channels Gradient Descent in Super Neural
    Networks". As published: a path has at most ``n_active`` components in each layer, whose outputs
    are summed; it is written as their numbers; of two paths of a population, each trained for a
    while, the better one overwrites the other by a copy, in which each number, with probability
    ``1 / (n_active * n_layers)``, gets a whole number from -2 to 2 added.

    Ours: the published network learns one task, whose path is then frozen, before it goes on to
    another; here each task has a population, all train at once and nothing is frozen. Contestants
    take turns batch by batch, and the mean loss decides, not the accuracy. Numbers that leave the
    layer at one end come in at the other.

    >>> from allotment.allocation import PathNet
    >>> PathNet(n_tasks=2, n_components=6, n_active=2).matrix().shape
    torch.Size([2, 6])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        n_active: Components that a path has in a layer, at most.
        n_members: Paths in the population of a task.
        n_each: Batches that each of two contestants trains on, and is judged by.
        n_layers: Modular layers of the network; the mutation's probability depends on it.
        reduce: "sum", as published, or "mean" of the outputs of a path's components.
    """

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        n_active: int = 3,
        n_members: int = 64,
        n_each: int = 50,
        n_layers: int = 1,
        reduce: str = "sum",
    ) -> None:
        check_counts(n_tasks, n_components)
        for name, value, least in (("n_active", n_active, 1), ("n_members", n_members, 2)):
            check_count(name, value, least)
        members = torch.randint(n_components, (n_tasks, n_members, n_active))
        super().__init__(members, n_components, n_each=n_each, n_layers=n_layers, reduce=reduce)
        self.n_active = n_active

    def new_row(self, name: str, table: Tensor) -> Tensor:
        if name == "members":
            return torch.randint_like(table[0], self.n_components)
        return super().new_row(name, table)

    def opened(self, members: Tensor) -> Tensor:
        components = torch.arange(self.n_components, device=members.device)
        return (members.unsqueeze(-1) == components).any(dim=-2)

    def mutated(self, members: Tensor) -> Tensor:
        places = torch.arange(members.shape[1], device=members.device)
        keys = self.salt, self._tasks.unsqueeze(1), self.n_over.unsqueeze(1), places
        is_changed = hashed(*keys, 0) < 2**32 // (self.n_active * self.n_layers)
        shifts = hashed(*keys, 1) % 5 - 2
        return torch.where(is_changed, (members + shifts) % self.n_components, members)
