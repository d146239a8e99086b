"""The form of a network that trains fastest, and the way back.

In it the components of one architecture are one module with stacked parameters, and linear heads
are one table. The network that a user built keeps its own names and shapes throughout.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor, nn

from ..modules import HeadTable, ModularLayer, are_linear, difference, group_by_architecture

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
    """Returns a copy of ``network`` in stacked form, sharing no tensor with it."""
    stacked = deepcopy(network)
    StackedForm(stacked)
    for layer in stacked.modular_layers:
        layer.skips_unused = False  # runs are evaluated together
    return stacked


def stack_alike(networks: "Sequence[TaskNetwork]", n_batches: int) -> "list[TaskNetwork]":
    """Returns stacked copies of networks, alike but for their numbers; raises where they are not.

    Their allocations know how many batches are to come.
    """
    copies = [stack(network) for network in networks]
    for copy in copies:
        for layer in copy.modular_layers:
            layer.allocation.expect(n_batches)
    _let_allocations_differ(copies)
    _check_alike(copies)
    return copies


def _let_allocations_differ(networks: "Sequence[TaskNetwork]") -> None:
    """Lets allocations have numbers of each run, such as temperatures, where these differ."""
    for layers in zip(*(network.modular_layers for network in networks), strict=False):
        allocations = [layer.allocation for layer in layers]
        if any(difference(allocations[0], other) for other in allocations[1:]):
            for allocation in allocations:
                allocation.let_runs_differ()


def _check_alike(networks: "Sequence[TaskNetwork]") -> None:
    for other in networks[1:]:
        found = difference(networks[0], other)
        if found:
            raise ValueError(
                "Networks that train together should differ only in the values of their "
                f"parameters, temperatures and fixed allocations. Found that {found}. Call `train` "
                "once for each kind."
            )


class StackedForm:
    """Puts a network in stacked form, itself and not a copy, until `undo`.

    What holds a parameter that stands in another place too stays as it is: stacked, each place
    would have a parameter of its own. So does a layer with others inside its components.
    """

    def __init__(self, network: "TaskNetwork") -> None:
        self.network = network
        self.locations = locations(network)
        shared = _shared(network)
        layers = [layer for layer in network.modular_layers if _can_stack(layer, shared)]
        self._components = [(layer, layer.components) for layer in layers]
        self._heads = network.heads
        for layer in layers:
            layer.stack_()
        if _has_table(network, shared):
            assert isinstance(network.heads, nn.ModuleList)
            network.heads = HeadTable(list(network.heads))  # type: ignore[arg-type]

    def own(self, stacked: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns a state of the stacked network as the user's has it; views."""
        return unstacked(self.locations, stacked)

    def stacked(self, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns a state of the user's network as the stacked one has it."""
        state = {name: value.clone() for name, value in self.network.state_dict().items()}
        for name, place in self.own(state).items():
            place.copy_(own[name])
        return state

    def undo(self) -> None:
        """Gives the network its own components and heads again, with the weights of now."""
        weights = self.own(self.network.state_dict())
        for layer, components in self._components:
            layer.components, layer.is_stacked = components, False
        self.network.heads = self._heads
        for name, parameter in self.network.named_parameters():
            if self.locations[name].position is not None:
                parameter.data = weights[name].clone()


def unstacked(places: Mapping[str, Location], stacked: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns a state of a stacked network as the user's has it; views."""
    return {name: location.read(stacked) for name, location in places.items()}


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
    return not layer.is_stacked and not holds_layer and not _holds(layer.components, shared)


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
