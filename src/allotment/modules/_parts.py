"""What a task uses of a network's layers, as modules without an allocation."""

from collections import OrderedDict
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from ..allocation import Allocation, SharedBottom
from ._inputs import call_with
from ._layer import ModularLayer
from ._mixing import summed
from ._network import TaskNetwork
from ._structures import each_tensor

NAMED: Any = object()  # no input by place: the names of a call are a dict of inputs


class Layers(nn.Sequential):
    """A stem, layers and a head; further arguments of a call go to what was a modular layer."""

    def __init__(
        self,
        parts: OrderedDict[str, nn.Module],
        were_modular: Sequence[str] = (),
        *,
        has_stem: bool = False,
    ) -> None:
        super().__init__(parts)
        self.were_modular = frozenset(were_modular)
        self.has_stem = has_stem

    def forward(self, input: Any = NAMED, /, *arguments: Any, **options: Any) -> Any:
        """Returns what they make of an input, one after another."""
        x, options = (options, {}) if input is NAMED else (input, options)
        for place, (name, part) in enumerate(zip(self._modules, self, strict=True)):
            if name in self.were_modular:
                x = part(x, *arguments, **options)
            else:
                x = call_with(part, x) if self.has_stem and place == 0 else part(x)
        return x


class WeightedSum(nn.Module):
    """The sum of some components' outputs, each times its weight."""

    weights: Tensor

    def __init__(self, components: Sequence[nn.Module], weights: Tensor) -> None:
        super().__init__()
        self.components = nn.ModuleList(components)
        self.register_buffer("weights", weights)

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return summed(self.weights, [part(*arguments, **options) for part in self.components])


class Nothing(nn.Module):
    """Zeros, for a layer of which a task uses nothing; one component says in which shape."""

    def __init__(self, component: nn.Module) -> None:
        super().__init__()
        self.component = component

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return each_tensor(torch.zeros_like, self.component(*arguments, **options))


def tasks_have_parts(network: TaskNetwork) -> bool:
    """Tells whether each task has a part of its own, the same in every evaluation.

    >>> from allotment import MultiTaskNetwork
    >>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], SharedBottom(1, 2))
    >>> tasks_have_parts(MultiTaskNetwork(None, [layer]))
    True

    Args:
        network: Any network; those whose gates see examples or are drawn have no such parts.
    """
    return all(
        layer.has_parts
        and not layer.allocation.sees_examples
        and layer.allocation.same_in_evaluation
        for layer in network.modular_layers
    )


def with_every_component(network: TaskNetwork) -> TaskNetwork:
    """Returns a network in which every task uses every component, where tasks have parts.

    What is extracted of it has the form of a task's own part, so that both can be compared.

    >>> from allotment import FixedMatrix, MultiTaskNetwork
    >>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], FixedMatrix([[1, 0], [0, 1]]))
    >>> with_every_component(MultiTaskNetwork(None, [layer])).modular_layers[0].allocation.matrix()
    tensor([[1., 1.],
            [1., 1.]])

    Args:
        network: The network, which stays as it is.
    """
    if not tasks_have_parts(network):
        return network
    made = deepcopy(network)
    for layer in made.modular_layers:
        own = layer.allocation
        layer.allocation = SharedBottom(own.n_tasks, own.n_components, reduce="mean")
    return made


def row_of(layer: ModularLayer, task: int) -> tuple[float, ...]:
    """Returns the weights of a layer's components in every evaluation of a task."""
    return tuple(_weights_in_evaluation(layer, task).tolist())


@torch.no_grad()
def own_part(layer: ModularLayer, task: int) -> nn.Module:
    """Returns what a task uses of a layer; the components are the layer's own."""
    weights = _weights_in_evaluation(layer, task)
    used = weights.nonzero().flatten()
    components: list[nn.Module] = [layer.components[position] for position in used.tolist()]
    if not components:
        return Nothing(layer.components[0])
    if len(components) == 1 and weights[used[0]] == 1:
        return components[0]
    return WeightedSum(components, weights[used])


def _weights_in_evaluation(layer: ModularLayer, task: int) -> Tensor:
    if not layer.has_parts:
        raise ValueError(
            "`network` should have modular layers of which a task has a part of its own. "
            f"Found a {type(layer).__name__}, all of whose streams take part in what a task gets."
        )
    allocation: Allocation = layer.allocation
    name = type(allocation).__name__
    if allocation.sees_examples:
        raise ValueError(
            "`network` should have allocations that do not look at examples: only then does a task "
            f"have a part of its own. Found {name}, whose weights differ from example to example."
        )
    check_same_in_evaluation(allocation)
    return allocation.eval().weights(task).detach().clone()


def check_same_in_evaluation(allocation: Allocation) -> None:
    """Raises where evaluations of one example differ."""
    if not allocation.same_in_evaluation:
        raise ValueError(
            "`network` should have allocations that are the same in every evaluation. "
            f"Found {type(allocation).__name__}, which is drawn anew each time."
        )
