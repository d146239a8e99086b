"""A champion and a challenger for each task (CTR, the routing of CMTR)."""

import torch
from torch import Tensor

from .._checks import check_count, check_probability
from ._base import check_counts
from ._tournament import Tournament, hashed


class ChampionChallenger(Tournament):
    """Gates of each task evolved by a champion and a challenger, which train side by side.

    From Liang, Meyerson and Miikkulainen 2018, "Evolutionary Architecture Search for Deep Multitask
    Networks": the coevolution of task routing (CTR), which is the routing of CMTR. As published:
    each task has a champion and a mutated copy of it, the challenger; both train jointly with those
    of all other tasks, on shared components that are never reset; then the better one on held-out
    examples is the champion, and gets a new challenger. Held-out examples are those of
    `Optimization.allocation_held_out`; without it losses are those of training batches.

    Ours: a published routing is a graph, to which a mutation adds a component at any depth, with
    learnt weights and a head of its own. Here it is the gates of the network's layers: a mutation
    opens or shuts one gate in one layer, open components are averaged, and both contestants have
    the task's one head. The mean loss over the batches of both decides. A task never loses
    its last component in a layer; it moves to the next instead. Modules do not evolve.

    >>> from allotment.allocation import ChampionChallenger
    >>> ChampionChallenger(n_tasks=2, n_components=3).matrix().shape
    torch.Size([2, 3])

    Args:
        n_tasks: Number of tasks.
        n_components: Number of components in the layer.
        p_init: Probability of each gate of the first champion to be open; one at least is.
        n_each: Batches that champion and challenger train on, each, before they are compared.
        depth: Which of the network's modular layers this is, from 0.
        n_layers: Modular layers of the network, of which a mutation changes one.
        reduce: "mean" or "sum" of the outputs of open components.
    """

    def __init__(
        self,
        n_tasks: int,
        n_components: int,
        *,
        p_init: float = 0.5,
        n_each: int = 50,
        depth: int = 0,
        n_layers: int = 1,
        reduce: str = "mean",
    ) -> None:
        check_counts(n_tasks, n_components)
        check_probability("p_init", p_init)
        check_count("depth", depth, 0)
        drawn = torch.rand(n_tasks, n_components)
        # The smallest draw opens its gate in any case.
        first = (drawn < p_init) | (drawn == drawn.amin(dim=1, keepdim=True))
        members = torch.stack([first, first], dim=1).long()
        super().__init__(members, n_components, n_each=n_each, n_layers=n_layers, reduce=reduce)
        if depth >= n_layers:
            raise ValueError(
                f"`depth` should be below `n_layers`. Found `depth = {depth}` of {n_layers} layers."
            )
        self.depth = depth
        self.members = torch.stack([members[:, 0], self.mutated(members[:, 0])], dim=1)

    def new_row(self, name: str, table: Tensor) -> Tensor:
        """Returns a row whose champion uses all, and whose first challenger is the same."""
        is_open = name == "members"
        return torch.ones_like(table[0]) if is_open else super().new_row(name, table)

    def opened(self, members: Tensor) -> Tensor:
        return members > 0

    def mutated(self, members: Tensor) -> Tensor:
        keys = self._tasks, self.n_over
        # Without the salt: all layers find the same one of them to be changed.
        is_here = (hashed(*keys, 2) % self.n_layers == self.depth).unsqueeze(1)
        gates = hashed(self.salt, *keys, 3).unsqueeze(1) % self.n_components
        places = torch.arange(self.n_components, device=members.device)
        changed = torch.where(places == gates, 1 - members, members)
        is_empty = changed.sum(dim=1, keepdim=True) == 0
        changed = torch.where(is_empty, members.roll(1, dims=1), changed)
        return torch.where(is_here, changed, members)
