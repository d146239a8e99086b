"""One task's part of a network, as a module of its own."""

from collections import OrderedDict
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from ..allocation import Allocation
from ._columns import ColumnLayer
from ._inputs import call_with
from ._layer import ModularLayer
from ._low_rank import AdaptedPart, merge_into
from ._mixing import summed
from ._network import Features, MultiTaskModel, MultiTaskNetwork, as_network
from ._per_task import PerTask
from ._structures import each_tensor
from ._task_mask import TaskMask

_NAMED: Any = object()  # no input by place: the names of a call are a dict of inputs


def extract(network: nn.Module, task: int | str, *, merge: bool = False) -> nn.Module:
    """Returns a copy of what a task uses, in evaluation mode, with no allocation left in it.

    It has the outputs of the network in evaluation mode, to the last bit, and takes what the
    network takes but the task; a dict of inputs also as arguments by name, ``own(**batch)``. An
    ordinary module: it can be trained further, saved, or handed to `torch.export`.

    >>> from allotment import GumbelMatrix
    >>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], GumbelMatrix(2, 2, p_init=0.9))
    >>> layer.allocation.logits.data[1, 0] = torch.tensor([-1.0, 1.0])  # shut for the second task
    >>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
    >>> extract(network, "b")
    _Layers(
      (layer_0): Linear(in_features=8, out_features=4, bias=True)
      (head): Linear(in_features=4, out_features=3, bias=True)
    )

    Args:
        network: A network in which a task's weights are the same in every evaluation.
        task: The task's index or name.
        merge: Whether low-rank updates become part of the weights they update. The copy then has
            the model's own modules in those places; its outputs agree up to rounding.
    """
    network = as_network(network)
    index = int(network.task_index(task))
    # All at once, so that what stands in two places is one module in the copy too.
    own = deepcopy(network)
    replaced = _replace_layers(own, index, merge)
    head = own.heads[index] if isinstance(own.heads, nn.ModuleList) else None
    if isinstance(own, MultiTaskModel):
        tells_task = own._tells_task and own.body not in replaced
        return _OneTask(own.body, head, index if tells_task else None, own.features).eval()
    assert isinstance(own, MultiTaskNetwork) and isinstance(network, MultiTaskNetwork)
    were_modular = [isinstance(layer, ModularLayer) for layer in network.layers]
    return _in_a_row(own, head, were_modular).eval()


def _in_a_row(own: MultiTaskNetwork, head: nn.Module | None, were_modular: list[bool]) -> "_Layers":
    """Returns a stem, layers that are one task's, and its head, those that there are."""
    layers = {f"layer_{number}": layer for number, layer in enumerate(own.layers)}
    stem = {} if isinstance(own.stem, nn.Identity) else {"stem": own.stem}
    parts = {**stem, **layers, **({} if head is None else {"head": head})}
    takes_all = [name for name, is_one in zip(layers, were_modular, strict=True) if is_one]
    return _Layers(OrderedDict(parts), takes_all, has_stem=bool(stem))


def _replace_layers(network: nn.Module, task: int, merge: bool) -> set[nn.Module]:
    """Puts a task's own parts in the place of what differs by task; returns the parts."""
    parts: dict[nn.Module, nn.Module] = {}
    # Backwards: what stands inside a component comes before the layer that holds it.
    for name, module in reversed(list(network.named_modules(remove_duplicate=False))):
        if isinstance(module, ModularLayer | AdaptedPart | PerTask | TaskMask):
            if module not in parts:
                parts[module] = _part_of(module, task, merge)
            network.set_submodule(name, parts[module])
    return set(parts.values())


def _part_of(
    module: ModularLayer | AdaptedPart | PerTask | TaskMask, task: int, merge: bool
) -> nn.Module:
    if isinstance(module, ModularLayer):
        return _own_part(module, task)
    return _adapted(module, merge) if isinstance(module, AdaptedPart) else module.module_of(task)


def _adapted(part: AdaptedPart, merge: bool) -> nn.Module:
    """Returns a part whose updates are one task's."""
    updates: nn.Module = part.updates
    if isinstance(updates, _Nothing):
        return part.base
    if not merge:
        return part
    shares = [(1.0, updates)]
    if isinstance(updates, _WeightedSum):
        shares = list(zip(updates.weights.tolist(), updates.components, strict=True))
    return part.base if merge_into(part.base, shares) else part


class _OneTask(nn.Module):
    """A model whose modular layers are one task's, and that task's head."""

    def __init__(
        self,
        body: nn.Module,
        head: nn.Module | None,
        task: int | None,
        features: Features | None,
    ) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Identity() if head is None else head
        self.features = nn.Identity() if features is None else features
        self._told = {} if task is None else {"task": task}

    def forward(self, input: Any = _NAMED, /, *arguments: Any, **options: Any) -> Tensor:
        x, options = (options, {}) if input is _NAMED else (input, options)
        features = call_with(self.body, x, *arguments, **self._told, **options)
        y: Tensor = self.head(self.features(features))
        return y


class _Layers(nn.Sequential):
    """A stem, layers and a head; further arguments of a call go to what was a modular layer."""

    def __init__(
        self,
        parts: OrderedDict[str, nn.Module],
        were_modular: Sequence[str] = (),
        *,
        has_stem: bool = False,
    ) -> None:
        super().__init__(parts)
        self._were_modular = frozenset(were_modular)
        self._has_stem = has_stem

    def forward(self, input: Any = _NAMED, /, *arguments: Any, **options: Any) -> Any:
        """Returns what they make of an input, one after another."""
        x, options = (options, {}) if input is _NAMED else (input, options)
        for place, (name, part) in enumerate(zip(self._modules, self, strict=True)):
            if name in self._were_modular:
                x = part(x, *arguments, **options)
            else:
                x = call_with(part, x) if self._has_stem and place == 0 else part(x)
        return x


class _WeightedSum(nn.Module):
    """The sum of some components' outputs, each times its weight."""

    weights: Tensor

    def __init__(self, components: Sequence[nn.Module], weights: Tensor) -> None:
        super().__init__()
        self.components = nn.ModuleList(components)
        self.register_buffer("weights", weights)

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return summed(self.weights, [part(*arguments, **options) for part in self.components])


class _Nothing(nn.Module):
    """Zeros, for a layer of which a task uses nothing; one component says in which shape."""

    def __init__(self, component: nn.Module) -> None:
        super().__init__()
        self.component = component

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return each_tensor(torch.zeros_like, self.component(*arguments, **options))


@torch.no_grad()
def _own_part(layer: ModularLayer, task: int) -> nn.Module:
    if isinstance(layer, ColumnLayer):
        raise ValueError(
            "`network` should have modular layers of which a task has a part of its own. "
            "Found a ColumnLayer, all of whose streams take part in what a task gets."
        )
    weights = _weights_in_evaluation(layer.allocation, task)
    used = weights.nonzero().flatten()
    components: list[nn.Module] = [layer.components[position] for position in used.tolist()]
    if not components:
        return _Nothing(layer.components[0])
    if len(components) == 1 and weights[used[0]] == 1:
        return components[0]
    return _WeightedSum(components, weights[used])


def _weights_in_evaluation(allocation: Allocation, task: int) -> Tensor:
    name = type(allocation).__name__
    if allocation.sees_examples:
        raise ValueError(
            "`network` should have allocations that do not look at examples: only then does a task "
            f"have a part of its own. Found {name}, whose weights differ from example to example."
        )
    if not allocation.same_in_evaluation:
        raise ValueError(
            "`network` should have allocations that are the same in every evaluation. "
            f"Found {name}, which is drawn anew each time."
        )
    return allocation.eval().weights(task).clone()
