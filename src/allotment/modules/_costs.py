"""What components and the networks of single tasks cost: parameters, operations and time."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from .._checks import check_choice, check_count, first_line
from ._context import Pass, opened
from ._counting import Operations, n_parameters
from ._extraction import extract, tasks_have_parts, with_every_component
from ._network import TaskNetwork, as_network

COSTS = ("parameters", "flops", "latency")
Call = tuple[tuple[Any, ...], dict[str, Any]]  # the arguments of a module, by place and by name


@dataclass(frozen=True)
class Cost:
    """What something costs.

    >>> Cost(parameters=36, flops=64, latency=0.1).parameters
    36

    Attributes:
        parameters: How many it has.
        flops: Floating-point operations of a pass, those of products and convolutions; a
            multiplication and an addition are two.
        latency: Seconds of a pass, measured: a median.
    """

    parameters: int
    flops: int
    latency: float


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What the components of a network and the networks of its tasks cost; `print` shows a table.

    Attributes:
        components: Of each component, ``C`` of them, the layers side by side.
        tasks: Of each task's own network, by name: what `extract` returns, or the whole network
            where a task has none of its own.
        full: Of the whole network. Operations and latency are those of a task which would use
            every component, the one that takes most operations then, extracted as well.
        component_names: One for each component.
        layer_sizes: Components in each modular layer.
        measured: How latencies were measured, in words.
    """

    components: tuple[Cost, ...]
    tasks: dict[str, Cost]
    full: Cost
    component_names: tuple[str, ...]
    layer_sizes: tuple[int, ...]
    measured: str

    def of_components(self, kind: str) -> Tensor:
        """Returns what each component costs, ``[C]``, in "parameters", "flops" or "latency"."""
        check_choice("kind", kind, COSTS)
        return torch.tensor([float(getattr(cost, kind)) for cost in self.components])

    def __str__(self) -> str:
        rows = [("", "parameters", "FLOPs", "latency")]
        ends = [sum(self.layer_sizes[:place]) for place in range(len(self.layer_sizes) + 1)]
        for number, (first, last) in enumerate(pairwise(ends)):
            rows.append((f"layer {number}", "", "", ""))
            rows += [
                _cells(f"  {self.component_names[at]}", self.components[at])
                for at in range(first, last)
            ]
        rows.append(("tasks", "", "", ""))
        rows += [_cells(f"  {name}", cost) for name, cost in self.tasks.items()]
        rows.append(_cells("full network", self.full))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:{'<>'[place > 0]}{widths[place]}}" for place, cell in enumerate(row))
            for row in rows
        ]
        return "\n".join([*(line.rstrip() for line in lines), self.measured])


def costs(network: nn.Module, example_input: Any, *, repeats: int = 20) -> Costs:
    """Returns what each component, and each task's own network, costs; `print` it.

    Parameters and floating-point operations are counted, and latencies are measured where the
    network lies, for a batch as large as the example.

    >>> from allotment import FixedMatrix, ModularLayer, MultiTaskNetwork
    >>> parts = [nn.Linear(8, 4), nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))]
    >>> layer = ModularLayer(parts, FixedMatrix([[1, 0], [1, 1]]))
    >>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
    >>> found = costs(network, torch.randn(10, 8))
    >>> [cost.flops for cost in found.components]
    [640, 3840]
    >>> found.tasks["a"].flops, found.tasks["b"].flops, found.tasks["a"].parameters
    (720, 4720, 41)

    Args:
        network: A network, or any module with modular layers in it.
        example_input: A batch as the network takes it; or one for each task, a dict by their names.
        repeats: Passes that are timed for each latency, of which the median counts.
    """
    whole = deepcopy(as_network(network)).eval()
    check_count("repeats", repeats)
    examples = [_here(own, whole) for own in _by_task(whole, example_input)]
    by_kind = [_by_component(whole, examples[0], kind, repeats) for kind in COSTS]
    return Costs(
        components=tuple(Cost(int(n), int(flops), t) for n, flops, t in zip(*by_kind, strict=True)),
        tasks={
            name: _of_task(whole, task, examples[task], repeats)
            for task, name in enumerate(whole.task_names)
        },
        full=_of_all(whole, examples, repeats),
        component_names=whole.component_names,
        layer_sizes=whole.layer_sizes,
        measured=_in_words(examples[0], repeats),
    )


def component_costs(network: TaskNetwork, example_input: Any, kind: str) -> Tensor:
    """Returns what each component costs, ``[C]``, as `Costs.of_components` does."""
    whole = deepcopy(network).eval()
    return torch.tensor(_by_component(whole, _here(example_input, whole), kind, 20))


@torch.no_grad()
def _by_component(network: TaskNetwork, x: Any, kind: str, repeats: int) -> list[float]:
    """Returns one kind of cost of each component, in a pass of the first task."""
    network = _evaluating_all(network)
    calls = {} if kind == "parameters" else _calls(network, x)
    found: list[float] = []
    for layer in network.modular_layers:
        for part in layer.components:
            if kind == "parameters":
                found.append(n_parameters(part))
                continue
            again = [partial(part, *given, **named) for given, named in calls[layer, part]]
            with opened(Pass(0)):
                count = _operations if kind == "flops" else partial(_latency, repeats=repeats)
                found.append(sum(map(count, again)))
    return found


def _calls(network: TaskNetwork, x: Any) -> dict[tuple[nn.Module, nn.Module], list[Call]]:
    """Returns what each component of each layer is called with, all of them being evaluated.

    A component may stand in several layers, and a layer may be called several times.
    """
    layers = network.modular_layers
    found: dict[tuple[nn.Module, nn.Module], list[Call]] = {}
    around: list[nn.Module] = []  # the layers that are under way, the innermost last

    def note(part: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        found.setdefault((around[-1], part), []).append((arguments, options))

    def leave(*_: object) -> None:
        around.pop()

    parts = {part for layer in layers for part in layer.components}
    hooks = [part.register_forward_pre_hook(note, with_kwargs=True) for part in parts]
    for layer in layers:
        # Each by itself: of a group of one architecture no component is called.
        layer.groups = [[place] for place in range(len(layer.components))]
        hooks.append(layer.register_forward_pre_hook(lambda own, _: around.append(own)))
        hooks.append(layer.register_forward_hook(leave))
    _passed(network, 0, x)
    for hook in hooks:
        hook.remove()
    return found


@torch.no_grad()
def _of_task(network: TaskNetwork, task: int, x: Any, repeats: int) -> Cost:
    """Returns the cost of a task's own network; of the whole one where it has none."""
    _passed(network, task, x)  # tells of an example that it does not take
    if not tasks_have_parts(network):
        return cost_of(network, partial(network, x, task), repeats)
    own = extract(network, task)
    return cost_of(own, partial(own, x), repeats)


@torch.no_grad()
def _of_all(network: TaskNetwork, examples: Sequence[Any], repeats: int) -> Cost:
    """Returns the cost of the network; a pass is the dearest of a task with every component."""
    calls: Iterator[Callable[[], Any]]
    if tasks_have_parts(network):
        every = with_every_component(network)
        calls = (partial(extract(every, task), x) for task, x in enumerate(examples))
    else:
        every = _evaluating_all(network)
        calls = (partial(every, x, task) for task, x in enumerate(examples))
    return cost_of(network, max(calls, key=_operations), repeats)


def cost_of(module: nn.Module, call: Callable[[], Any], repeats: int) -> Cost:
    """Returns the cost of a module, of which ``call`` makes a pass; of so many the median."""
    return Cost(n_parameters(module), _operations(call), _latency(call, repeats))


def _evaluating_all(network: TaskNetwork) -> TaskNetwork:
    """Returns a copy that evaluates every component, used or not."""
    network = deepcopy(network)
    for layer in network.modular_layers:
        layer.skips_unused = False
    return network


def _passed(network: TaskNetwork, task: int, x: Any) -> Any:
    """Returns a task's outputs; an example that the network does not take is told of."""
    try:
        return network(x, task)
    except Exception as error:  # whatever a user's module raises
        shapes = [list(part.shape) for part in tree_leaves(x) if isinstance(part, Tensor)]
        raise ValueError(
            "`example_input` should be a batch such as the network takes for task "
            f"{network.task_names[task]!r}. Found shapes {shapes}: {first_line(error)}"
        ) from error


def _operations(call: Callable[[], Any]) -> int:
    with Operations() as counter:  # type: ignore[no-untyped-call]
        call()
    return int(counter.total)


def _latency(call: Callable[[], Any], repeats: int) -> float:
    """Returns the median of so many passes, in seconds, after two that prepare."""
    taken = []
    for _ in range(repeats + 2):
        _wait()
        start = time.perf_counter()
        call()
        _wait()
        taken.append(time.perf_counter() - start)
    return median(taken[2:])


def _wait() -> None:
    """Waits until a GPU, where there is one in use, has done what it was told."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _by_task(network: TaskNetwork, example: Any) -> list[Any]:
    """Returns an example for each task."""
    names = network.task_names
    is_by_task = isinstance(example, Mapping) and set(example) == set(names)
    return [example[name] if is_by_task else example for name in names]


def _here(example: Any, network: nn.Module) -> Any:
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    return tree_map(lambda part: part.to(device) if isinstance(part, Tensor) else part, example)


def _in_words(example: Any, repeats: int) -> str:
    tensors = [part for part in tree_leaves(example) if isinstance(part, Tensor) and part.ndim]
    size = len(tensors[0]) if tensors else 1
    where = tensors[0].device.type if tensors else "cpu"
    threads = torch.get_num_threads()
    on = f"a CPU with {threads} thread{'s' * (threads > 1)}" if where == "cpu" else where
    return f"Latency: median of {repeats} passes of a batch of {size}, on {on}."


def _cells(name: str, cost: Cost) -> tuple[str, str, str, str]:
    return name, f"{cost.parameters:,}", f"{cost.flops:,}", f"{1e3 * cost.latency:.3g} ms"
