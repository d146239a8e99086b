"""What one task or several use of a network, as a module of its own."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_truth
from ..allocation import Allocation, SharedBottom
from ._folding import folded
from ._heads import Features
from ._layer import ModularLayer
from ._low_rank import AdaptedPart, merge_into
from ._network import MultiTaskModel, MultiTaskNetwork, TaskNetwork, as_network
from ._parts import ByTask, Layers, Nothing, WeightedSum
from ._per_task import PerTask
from ._task_mask import TaskMask
from ._trunk import OneTask, SeveralTasks


def extract(
    network: nn.Module, task: int | str | Sequence[int | str], *, merge: bool = False
) -> nn.Module:
    """Returns a copy of what a task uses, in evaluation mode, with no allocation left in it.

    It has the outputs of the network in evaluation mode, to the last bit, and takes what the
    network takes but the task; a dict of inputs also as arguments by name, ``own(**batch)``. An
    ordinary module: it can be trained further, saved, or handed to `torch.export`.

    >>> import torch
    >>> from allotment import GumbelMatrix
    >>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], GumbelMatrix(2, 2, p_init=0.9))
    >>> layer.allocation.logits.data[1, 0] = torch.tensor([-1.0, 1.0])  # shut for the second task
    >>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
    >>> extract(network, "b")
    Layers(
      (layer_0): Linear(in_features=8, out_features=4, bias=True)
      (head): Linear(in_features=4, out_features=3, bias=True)
    )

    A list of tasks gives one module with the outputs of each, as a dict by name. What tasks have
    in common is there once and is computed once: components that they use on the same input, and
    whole layers of which they use the same.

    >>> both = extract(network, ["a", "b"])
    >>> {name: list(y.shape) for name, y in both(torch.ones(5, 8)).items()}
    {'a': [5, 1], 'b': [5, 3]}

    Args:
        network: A network in which a task's weights are the same in every evaluation.
        task: The task's index or name, or a list of them.
        merge: Whether linear maps become one where that is exact up to rounding: low-rank updates
            and the weights they update, a weighted sum of linear layers or of convolutions, one
            such layer after another unless that takes more weights, and batch normalisation after
            either (a `BatchNorm1d` after a linear layer is taken to see ``[B, D]``). Components of
            one form that are such a map and activations become one, with a wide map. Dropout is
            left out, so the copy is for inference.
    """
    check_truth("merge", merge)
    network = as_network(network)
    is_one = isinstance(task, int | str | Tensor) or not isinstance(task, Sequence)
    tasks = _indices(network, [task] if is_one else task)  # type: ignore[list-item, arg-type]
    # All at once, so that what stands in two places is one module in the copy too.
    own = deepcopy(network).eval()
    were_modular = _modular_names(own)
    replaced = _replace_layers(own, tasks, merge)
    fold = partial(folded, called_whole=replaced) if merge else _as_it_is
    heads = _heads(own, tasks)
    if is_one and isinstance(own, MultiTaskNetwork):
        return fold(_in_a_row(own, were_modular, heads[0])).eval()
    whole, features, tells_task = _body(own, were_modular, replaced)
    body, heads = fold(whole), [fold(head) for head in heads]
    if is_one:
        return OneTask(body, heads[0], tasks[0] if tells_task else None, features).eval()
    names = {own.task_names[at]: at for at in tasks}
    return SeveralTasks(body, names, heads, features, tells_task=tells_task).eval()


def _heads(network: TaskNetwork, tasks: Sequence[int]) -> list[nn.Module]:
    """Returns the tasks' heads, which pass features on where there are none."""
    if not isinstance(network.heads, nn.ModuleList):
        return [nn.Identity() for _ in tasks]
    return [network.heads[at] for at in tasks]


def _as_it_is(module: nn.Module) -> nn.Module:
    return module


def _indices(network: TaskNetwork, tasks: Sequence[int | str | Tensor]) -> list[int]:
    """Returns the indices of tasks; raises unless there is one at least, and none twice."""
    found = [_index(network, task) for task in tasks]
    if not found or len(set(found)) < len(found):
        raise ValueError(
            "`task` should be a task or a list of different tasks. "
            f"Found {[network.task_names[at] for at in found]}."
        )
    return found


def _index(network: TaskNetwork, task: int | str | Tensor) -> int:
    if isinstance(task, Tensor):
        if task.numel() != 1 or task.is_complex():
            raise TypeError(
                "`task` should be a task's index or name, or a list of them. "
                f"Found a tensor of shape {list(task.shape)}."
            )
        task = int(task)
    return int(network.task_index(task))


def _modular_names(network: TaskNetwork) -> list[str]:
    """Returns which layers in a row are modular, by the names that they are to have."""
    layers = network.layers if isinstance(network, MultiTaskNetwork) else ()
    return [f"layer_{n}" for n, layer in enumerate(layers) if isinstance(layer, ModularLayer)]


def _body(
    own: TaskNetwork, were_modular: Sequence[str], replaced: Collection[nn.Module]
) -> tuple[nn.Module, Features | None, bool]:
    """Returns what stands before the heads, how heads take it, and whether it is told the task."""
    if isinstance(own, MultiTaskModel):
        return own.body, own.features, own._tells_task and own.body not in replaced
    assert isinstance(own, MultiTaskNetwork)
    return _in_a_row(own, were_modular), None, False


def _in_a_row(
    own: MultiTaskNetwork, were_modular: Sequence[str], head: nn.Module | None = None
) -> Layers:
    """Returns a stem, layers that are one task's, and its head, those that there are."""
    layers = {f"layer_{number}": layer for number, layer in enumerate(own.layers)}
    stem = {} if isinstance(own.stem, nn.Identity) else {"stem": own.stem}
    parts: dict[str, nn.Module] = {**stem, **layers}
    if head is not None and own.heads is not None:
        parts["head"] = head
    return Layers(OrderedDict(parts), were_modular, has_stem=bool(stem))


def _replace_layers(network: nn.Module, tasks: list[int], merge: bool) -> set[nn.Module]:
    """Puts the tasks' own parts in the place of what differs by task; returns the parts."""
    parts: dict[nn.Module, nn.Module] = {}
    # Backwards: what stands inside a component comes before the layer that holds it.
    for name, module in reversed(list(network.named_modules(remove_duplicate=False))):
        if isinstance(module, ModularLayer | AdaptedPart | PerTask | TaskMask):
            if module not in parts:
                parts[module] = _part_of(module, tasks, merge)
            network.set_submodule(name, parts[module])
    return set(parts.values())


def _part_of(
    module: ModularLayer | AdaptedPart | PerTask | TaskMask, tasks: list[int], merge: bool
) -> nn.Module:
    """Returns what tasks use of a module: one thing where they use the same, else one each."""
    if isinstance(module, AdaptedPart):
        return _adapted(module, merge)
    made: dict[Any, nn.Module] = {}  # by what tells tasks apart
    keys = [_key(module, task) for task in tasks]
    for task, key in zip(tasks, keys, strict=True):
        if key not in made:
            made[key] = (
                own_part(module, task)
                if isinstance(module, ModularLayer)
                else module.module_of(task)
            )
    places = {task: list(made).index(key) for task, key in zip(tasks, keys, strict=True)}
    return ByTask(list(made.values()), places) if len(made) > 1 else next(iter(made.values()))


def _key(module: ModularLayer | PerTask | TaskMask, task: int) -> Any:
    """Returns what is the same for two tasks where they use the same of a module."""
    if isinstance(module, ModularLayer):
        return row_of(module, task)
    return (
        module.module_of(task) if isinstance(module, PerTask) else tuple(module.mask[task].tolist())
    )


def _adapted(part: AdaptedPart, merge: bool) -> nn.Module:
    """Returns a part whose updates are those of one row of gates, or differ by task."""
    updates: nn.Module = part.updates
    if isinstance(updates, Nothing):
        return part.base
    if not merge or isinstance(updates, ByTask):
        return part
    shares = [(1.0, updates)]
    if isinstance(updates, WeightedSum):
        shares = list(zip(updates.weights.tolist(), updates.components, strict=True))
    return part.base if merge_into(part.base, shares) else part


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
