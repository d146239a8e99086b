"""The form of a network that trains fastest, and the way back.

In it the components of one architecture are one module with stacked parameters, and linear heads
are one table. The network that a user built keeps its own names and shapes throughout.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from ..modules import HeadTable, ModularLayer, are_linear, group_by_architecture

if TYPE_CHECKING:
    from ..modules import TaskNetwork


class Location(NamedTuple):
    """Where a tensor of the user's network lies in the stacked one."""

    name: str
    position: int | None = None  # along the stacked dimension; None: not stacked
    width: int | None = None  # the part of a padded head that is real

    def read(self, stacked: Mapping[str, Tensor]) -> Tensor:
        """Returns the tensor out of the stacked network's state; a view of it."""
        value = stacked[self.name]
        if self.position is not None:
            value = value[self.position]
        return value if self.width is None else value[: self.width]


def stack(network: "TaskNetwork") -> "TaskNetwork":
    """Returns a copy of ``network`` in stacked form, sharing no tensor with it.

    What holds a parameter that stands in another place too stays as it is: stacked, each place
    would have a parameter of its own. So does a layer with others inside its components.
    """
    stacked = deepcopy(network)
    shared = _shared(stacked)
    for layer in stacked.modular_layers:
        if _can_stack(layer, shared):
            layer.stack_()
        layer.skips_unused = False  # runs are evaluated together
    if _has_table(stacked, shared):
        assert isinstance(stacked.heads, nn.ModuleList)
        stacked.heads = HeadTable(list(stacked.heads))  # type: ignore[arg-type]
    return stacked


def locations(network: "TaskNetwork") -> dict[str, Location]:
    """Returns where each entry of ``network.state_dict()`` lies in the stacked state."""
    shared = _shared(network)
    firsts = {id(p): name for name, p in network.named_parameters()}
    found = {name: Location(name) for name in network.state_dict()}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        found[name] = Location(firsts[id(parameter)])
    for path, layer in network.named_modules():
        if isinstance(layer, ModularLayer) and _can_stack(layer, shared):
            found |= _of_components(f"{path}.components", layer)
    return found | (_of_heads(network) if _has_table(network, shared) else {})


def _of_heads(network: "TaskNetwork") -> dict[str, Location]:
    assert isinstance(network.heads, nn.ModuleList)
    return {
        f"heads.{task}.{name}": Location(f"heads.{name}", task, head.out_features)  # type: ignore[arg-type]
        for task, head in enumerate(network.heads)
        for name, _ in head.named_parameters()
    }


def _can_stack(layer: ModularLayer, shared: set[int]) -> bool:
    holds_layer = any(isinstance(part, ModularLayer) for part in layer.components.modules())
    return not holds_layer and not _holds(layer.components, shared)


def _has_table(network: "TaskNetwork", shared: set[int]) -> bool:
    heads = list(network.heads) if isinstance(network.heads, nn.ModuleList) else []
    return bool(heads) and are_linear(heads) and not any(_holds(head, shared) for head in heads)


def _holds(module: nn.Module, shared: set[int]) -> bool:
    return bool(shared & {id(parameter) for parameter in module.parameters()})


def _shared(network: nn.Module) -> set[int]:
    """Returns the identities of the parameters that stand in two places."""
    seen: set[int] = set()
    twice: set[int] = set()
    for _, parameter in network.named_parameters(remove_duplicate=False):
        (twice if id(parameter) in seen else seen).add(id(parameter))
    return twice


def _of_components(prefix: str, layer: ModularLayer) -> dict[str, Location]:
    found = {}
    for index, group in enumerate(group_by_architecture(list(layer.components))):
        for position, member in enumerate(group):
            for name in layer.components[member].state_dict():
                found[f"{prefix}.{member}.{name}"] = Location(
                    f"{prefix}.{index}.{name}", position if len(group) > 1 else None
                )
    return found
