"""The form of a network that trains fastest, and the way back.

In the packed form each kind of component is one module with stacked parameters, and linear heads
are one table. The network that a user built keeps its own names and shapes throughout.
"""

from collections.abc import Mapping
from copy import copy, deepcopy
from typing import NamedTuple

from torch import Tensor, nn

from ._heads import HeadTable, are_linear
from ._kinds import group_by_kind, has_shared_parameters
from ._layer import ModularLayer
from ._multitask import MultiTaskNetwork


class Place(NamedTuple):
    """Where a tensor of the user's network lies in the packed one."""

    name: str
    position: int | None = None  # along the stacked dimension; None: not stacked
    width: int | None = None  # the part of a padded head that is real

    def read(self, packed: Mapping[str, Tensor]) -> Tensor:
        """Returns the tensor out of the packed network's state."""
        value = packed[self.name]
        if self.position is not None:
            value = value[self.position]
        return value if self.width is None else value[: self.width]


def pack(network: MultiTaskNetwork) -> MultiTaskNetwork:
    """Returns a copy of ``network`` in packed form, sharing no tensor with it.

    A network in which a parameter stands in two places is copied as it is: stacking would give
    each place a parameter of its own.
    """
    if has_shared_parameters(network):
        return deepcopy(network)
    packed = copy(network)
    packed._modules = dict(network._modules)
    packed.stem = deepcopy(network.stem)
    packed.layers = nn.ModuleList(
        layer.packed() if isinstance(layer, ModularLayer) else deepcopy(layer)
        for layer in network.layers
    )
    heads = list(network.heads) if isinstance(network.heads, nn.ModuleList) else []
    packed.heads = HeadTable(heads) if heads and are_linear(heads) else deepcopy(network.heads)
    return packed


def places(network: MultiTaskNetwork) -> dict[str, Place]:
    """Returns where each entry of ``network.state_dict()`` lies in the packed state."""
    if has_shared_parameters(network):
        return _places_of_shared(network)
    found = {name: Place(name) for name in network.state_dict()}
    for index, layer in enumerate(network.layers):
        if isinstance(layer, ModularLayer):
            found |= _component_places(f"layers.{index}.components", layer)
    heads = list(network.heads) if isinstance(network.heads, nn.ModuleList) else []
    if heads and are_linear(heads):
        for task, head in enumerate(heads):
            for name, _ in head.named_parameters():
                found[f"heads.{task}.{name}"] = Place(f"heads.{name}", task, head.out_features)
    return found


def _places_of_shared(network: MultiTaskNetwork) -> dict[str, Place]:
    """Returns for each name the first name of the same parameter."""
    firsts = {id(parameter): name for name, parameter in network.named_parameters()}
    everywhere = dict(network.named_parameters(remove_duplicate=False))
    return {
        name: Place(firsts[id(everywhere[name])] if name in everywhere else name)
        for name in network.state_dict()
    }


def _component_places(prefix: str, layer: ModularLayer) -> dict[str, Place]:
    found = {}
    for index, group in enumerate(group_by_kind(list(layer.components))):
        for position, member in enumerate(group):
            for name in layer.components[member].state_dict():
                found[f"{prefix}.{member}.{name}"] = Place(
                    f"{prefix}.{index}.{name}", position if len(group) > 1 else None
                )
    return found
