"""Tasks that come and go, and components that no task uses."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from .._checks import described, is_list_of
from ..allocation import Allocation
from ._columns import ColumnLayer
from ._counting import n_parameters
from ._heads import HeadList
from ._layer import ModularLayer
from ._network import TaskNetwork
from ._per_task import PerTask
from ._task_mask import TaskMask

Part = TypeVar("Part", bound=nn.Module)


def add_task(
    network: TaskNetwork, name: str, head: nn.Module | None = None, *, like: Any = None
) -> None:
    """Adds a task to a network, behind the others, whose outputs stay the same to the bit.

    ``fit(network, [task], only=[name])`` then trains what is the new task's alone. An optimizer of
    one's own is to be made after this: the allocations' parameters are new ones.

    >>> from allotment import GumbelMatrix, MultiTaskNetwork
    >>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], GumbelMatrix(2, 2))
    >>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
    >>> add_task(network, "c", nn.Linear(4, 2), like="b")
    >>> network.task_names, network(torch.randn(5, 8), "c").shape
    (['a', 'b', 'c'], torch.Size([5, 2]))

    Args:
        network: What grows, in place.
        name: Of the new task.
        head: The new task's head; None where the network has no heads.
        like: The task whose gates the new one starts with, by name or index, and whose module it
            shares in a `PerTask`; what is known about the new task, its features, for a
            `MetadataMatrix`; None: its gates favour no component.
    """
    _check_growable(network)
    if not isinstance(name, str) or name in network.task_names:
        rule = f"`name` should be a text, and none of {network.task_names}."
        raise ValueError(f"{rule} Found {name!r}.")
    _check_head(network, name, head)
    source = network.task_index(like) if isinstance(like, str | int) else like
    place = source if isinstance(source, int) else None
    for part in _parts(network, PerTask):
        part.check_grows(name, place)
    _grow_allocations(network, source)
    for part in _parts(network, PerTask):
        part.add_task(name, place)
    for mask in _parts(network, TaskMask):
        mask.add_task(place)
    heads = [] if head is None else [*_heads(network), head]
    _set_tasks(network, [*network.task_names, name], heads)


def _grow_allocations(network: TaskNetwork, like: Any) -> None:
    """Adds a task to every allocation, or to none where one of them cannot have another."""
    grown = {id(allocation): deepcopy(allocation) for allocation in _allocations(network)}
    for allocation in grown.values():
        allocation.add_task(like)
    for layer in network.modular_layers:
        layer.allocation = grown[id(layer.allocation)]


def drop_task(network: TaskNetwork, task: int | str) -> None:
    """Takes a task out of a network, in place: its gates, its head, and what else is its own.

    Outputs of other tasks stay the same to the bit; those behind it move up by one index. `prune`
    then removes components that no other task uses.

    >>> from allotment import GumbelMatrix, MultiTaskNetwork
    >>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], GumbelMatrix(2, 2))
    >>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
    >>> drop_task(network, "a")
    >>> network.task_names
    ['b']

    Args:
        network: The network to change, in place.
        task: The task's index or name.
    """
    _check_growable(network)
    index = network.task_index(task)
    others = [other for other in range(network.n_tasks) if other != index]
    if not others:
        raise ValueError(f"`network` should have another task than {task!r}. Found no other.")
    keep_tasks(network, others)


def keep_tasks(network: TaskNetwork, tasks: Sequence[int]) -> None:
    """Takes all tasks but these out of a network, in place.

    >>> from allotment import GumbelMatrix, MultiTaskNetwork
    >>> layer = ModularLayer([nn.Linear(8, 1), nn.Linear(8, 1)], GumbelMatrix(3, 2))
    >>> network = MultiTaskNetwork(None, [layer], task_names=["a", "b", "c"])
    >>> keep_tasks(network, [0, 2])
    >>> network.task_names
    ['a', 'c']

    Args:
        network: The network to change, in place.
        tasks: Indices of the tasks that stay.
    """
    for allocation in _allocations(network):
        allocation.keep_tasks(tasks)
    for part in _parts(network, PerTask):
        part.keep_tasks(tasks)
    for mask in _parts(network, TaskMask):
        mask.keep_tasks(tasks)
    heads = _heads(network)
    names = [network.task_names[task] for task in tasks]
    _set_tasks(network, names, [heads[task] for task in tasks] if heads else [])


def own_modules(network: TaskNetwork, tasks: Sequence[int]) -> list[nn.Module]:
    """Returns the heads and other modules that belong to some tasks and to no other one."""

    def of(indices: Sequence[int]) -> list[nn.Module]:
        heads = _heads(network)
        parts = _parts(network, PerTask)
        of_parts = [part.module_of(task) for part in parts for task in indices]
        return [*(heads[task] for task in indices if heads), *of_parts]

    others = of([task for task in range(network.n_tasks) if task not in tasks])
    return [module for module in of(tasks) if not any(module is other for other in others)]


@dataclass(frozen=True)
class Pruned:
    """What `prune` removed; `print` shows it in words.

    >>> Pruned({"layers.0": [0, 2]}, ("B",), n_parameters=20, n_parameters_before=30).names
    ('B',)

    Attributes:
        components: The places of removed components by layer, as ``network.named_modules()`` names
            layers. ``prune(other, components)`` does the same to a network that was built anew, so
            that it can be given the state of the pruned one.
        names: The removed components' names.
        n_parameters: Parameters that were removed.
        n_parameters_before: Parameters that the network had.
    """

    components: dict[str, list[int]]
    names: tuple[str, ...]
    n_parameters: int
    n_parameters_before: int

    def __str__(self) -> str:
        if not self.names:
            return "Every component is used by some task; nothing was removed."
        plural = "s" * (len(self.names) > 1)
        return (
            f"Removed {len(self.names)} component{plural} that no task uses "
            f"({', '.join(self.names)}), and with them {self.n_parameters:,} of "
            f"{self.n_parameters_before:,} parameters."
        )


@torch.no_grad()
def prune(network: TaskNetwork, components: Mapping[str, Sequence[int]] | None = None) -> Pruned:
    """Removes the components that no task uses in evaluation, in place; outputs stay the same.

    A layer keeps one component at least. Layers stay whole where examples decide about components,
    where gates are drawn in evaluation too, and where an allocation counts components by number.

    >>> from allotment import FixedMatrix, MultiTaskNetwork
    >>> parts = [nn.Linear(8, 4) for _ in range(3)]
    >>> layer = ModularLayer(parts, FixedMatrix([[1, 0, 0], [1, 0, 1]]))
    >>> network = MultiTaskNetwork(None, [layer], task_names=["a", "b"])
    >>> print(prune(network))
    Removed 1 component that no task uses (linear 1), and with them 36 of 108 parameters.

    Args:
        network: What is pruned.
        components: What an earlier prune says that it removed; None: what no task uses now.
    """
    _check_growable(network)
    before = n_parameters(network)
    layers = {
        name: layer for name, layer in network.named_modules() if isinstance(layer, ModularLayer)
    }
    chosen = _unused(layers) if components is None else _checked(components, layers)
    names = tuple(layers[name].names[at] for name, places in chosen.items() for at in places)
    allocations = {layers[name].allocation: places for name, places in chosen.items()}
    for allocation, places in allocations.items():  # once each: several layers may have one
        allocation.keep_components(_others(allocation.n_components, places))
    for name, places in chosen.items():
        _keep_components(layers[name], _others(len(layers[name].components), places))
    network.number_layers()
    return Pruned(chosen, names, before - n_parameters(network), before)


def _others(n: int, places: Sequence[int]) -> list[int]:
    return [at for at in range(n) if at not in places]


def _keep_components(layer: ModularLayer, places: Sequence[int]) -> None:
    layer.components = nn.ModuleList(layer.components[at] for at in places)
    layer.names = [layer.names[at] for at in places]
    layer.kinds = [layer.kinds[at] for at in places]


def _unused(layers: Mapping[str, ModularLayer]) -> dict[str, list[int]]:
    """Returns the places of components that no task uses, by layer, of layers that have some."""
    found = {}
    for name, layer in layers.items():
        if not layer.allocation.can_lose_components:
            continue
        is_used = (layer.allocation.matrix() != 0).any(dim=0)
        is_used[0] |= not is_used.any()
        if not is_used.all():
            found[name] = (~is_used).nonzero().flatten().tolist()
    return found


def _checked(
    components: Mapping[str, Sequence[int]], layers: Mapping[str, ModularLayer]
) -> dict[str, list[int]]:
    """Returns places by layer; raises unless there are such components, and others."""
    if not isinstance(components, Mapping) or not all(
        is_list_of(places, int) for places in components.values()
    ):
        raise TypeError(
            "`components` should be a dict with the places of components by layer. "
            f"Found {described(components)}."
        )
    for name, places in components.items():
        n = layers[name].allocation.n_components if name in layers else 0
        if not set(places) < set(range(n)):
            raise ValueError(
                "`components` should have places of components by layer, with one left at least; "
                f"the layers are {list(layers)}. Found {list(places)} for {name!r}, which has {n}."
            )
    return {name: sorted(places) for name, places in components.items()}


def _check_growable(network: object) -> None:
    if not isinstance(network, TaskNetwork):
        raise TypeError(
            "`network` should be a MultiTaskNetwork or a MultiTaskModel. "
            f"Found {described(network)}."
        )
    if any(isinstance(layer, ColumnLayer) for layer in network.modular_layers):
        raise ValueError(
            "`network` should have modular layers whose components are side by side. "
            "Found a ColumnLayer, whose streams are made for its tasks."
        )


def _check_head(network: TaskNetwork, name: str, head: object) -> None:
    """Raises unless a head is given where the others are, and takes what they take."""
    if network.heads is None:
        if head is not None:
            raise ValueError(
                "`head` should be None where a network has no heads. "
                f"Found {described(head)} for task {name!r}."
            )
        return
    if not isinstance(head, nn.Module):
        raise TypeError(f"`head` should be a module, as the others'. Found {described(head)}.")
    assert isinstance(network.heads, HeadList)
    widths = {network.heads.width_taken(other) for other in range(network.n_tasks)} - {0}
    new = HeadList([head], [name]).width_taken(0)
    if new and len(widths) == 1 and new not in widths:
        raise ValueError(
            f"The head of task {name!r} should take {widths.pop()} features, as those of the other "
            f"tasks do. Found one that takes {new}."
        )


def _set_tasks(network: TaskNetwork, names: list[str], heads: Sequence[nn.Module]) -> None:
    network.n_tasks, network.task_names = len(names), names
    if heads:
        network.heads = HeadList(heads, names)


def _heads(network: TaskNetwork) -> list[nn.Module]:
    return list(network.heads) if isinstance(network.heads, nn.ModuleList) else []


def _allocations(network: TaskNetwork) -> list[Allocation]:
    return list(dict.fromkeys(layer.allocation for layer in network.modular_layers))


def _parts(network: nn.Module, kind: type[Part]) -> list[Part]:
    return [module for module in network.modules() if isinstance(module, kind)]
