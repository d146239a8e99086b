"""Tasks of which it is known beforehand how they should share, and why."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.settings import Optimization, TrainingSettings
from allotment.tasks import Task

N_INPUTS = 8
N_HELD_OUT = 300
SETTINGS = TrainingSettings(
    rounds=200,
    evaluate_every=20,
    optimization=Optimization(learning_rate=0.02, allocation_learning_rate=0.03),
)
Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Situation:
    """Tasks, and the way of sharing that serves them best."""

    name: str
    right: str
    reason: str
    tasks: Callable[[torch.Generator], list[Task]]


def a_network_for(tasks: Sequence[Task], seed: int) -> MultiTaskNetwork:
    """Returns a component for each task, and heads where they classify."""
    torch.manual_seed(seed)
    classifies, n = tasks[0].is_classification, len(tasks)
    width = 16 if classifies else 1
    components = [
        nn.Sequential(nn.Linear(N_INPUTS, 32), nn.ReLU(), nn.Linear(32, width)) for _ in tasks
    ]
    layer = ModularLayer(components, GumbelMatrix(n, n))
    names = [task.name for task in tasks]
    if not classifies:
        return MultiTaskNetwork(None, [layer], task_names=names)
    heads = {task.name: nn.Linear(width, task.n_outputs) for task in tasks}
    return MultiTaskNetwork(None, [layer, nn.ReLU()], heads)


def _regressions(
    functions: Sequence[Function], sizes: Sequence[int], generator: torch.Generator
) -> list[Task]:
    """Returns a regression for each function, with a little noise; "noise" is that of 0."""

    def examples(n: int, function: Function) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, N_INPUTS, generator=generator)
        return x, function(x) + 0.1 * torch.randn(n, generator=generator)

    return [
        Task(f"task {place}", examples(n, function), examples(N_HELD_OUT, function))
        for place, (function, n) in enumerate(zip(functions, sizes, strict=True))
    ]


def _waves(n: int, generator: torch.Generator) -> list[Function]:
    """Returns functions of inputs along directions that are orthogonal to each other."""
    directions = torch.linalg.qr(torch.randn(N_INPUTS, n, generator=generator)).Q.T

    def wave(direction: Tensor) -> Function:
        return lambda x: torch.sin(3 * x @ direction)

    return [wave(direction) for direction in directions]


def _two_families(generator: torch.Generator) -> list[Task]:
    a, b = _waves(2, generator)
    return _regressions([a, a, a, b, b, b], [250] * 6, generator)


def _identical(generator: torch.Generator) -> list[Task]:
    return _regressions(_waves(1, generator) * 4, [80] * 4, generator)


def _unrelated_many(generator: torch.Generator) -> list[Task]:
    return _regressions(_waves(4, generator), [2_000] * 4, generator)


def _unrelated_few(generator: torch.Generator) -> list[Task]:
    return _regressions(_waves(4, generator), [400] * 4, generator)


def _opposite(generator: torch.Generator) -> list[Task]:
    (wave,) = _waves(1, generator)
    return _regressions([wave, lambda x: -wave(x)], [500] * 2, generator)


def _tiny_beside_large(generator: torch.Generator) -> list[Task]:
    return _regressions(_waves(1, generator) * 2, [1_000, 20], generator)


def _noise_beside_family(generator: torch.Generator) -> list[Task]:
    def noise(x: Tensor) -> Tensor:
        return torch.randn(len(x), generator=generator)

    return _regressions([*_waves(1, generator) * 3, noise], [200] * 4, generator)


def _renamed_labels(generator: torch.Generator) -> list[Task]:
    directions = torch.randn(N_INPUTS, 4, generator=generator)

    def examples(n: int, names: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, N_INPUTS, generator=generator)
        return x, names[(x @ directions).sin().argmax(dim=1)]

    orders = [torch.randperm(4, generator=generator) for _ in range(4)]
    return [
        Task(f"task {place}", examples(100, names), examples(N_HELD_OUT, names))
        for place, names in enumerate(orders)
    ]


SITUATIONS = [
    Situation(
        "two families, few examples",
        "learnt gates",
        "A task alone has too few examples, and the other family learns something else.",
        _two_families,
    ),
    Situation(
        "one task of noise beside a family",
        "learnt gates",
        "The family has too few examples alone, and noise is nothing to share with.",
        _noise_beside_family,
    ),
    Situation(
        "identical tasks, few examples",
        "shared bottom",
        "All examples are of one task; there is nothing to separate.",
        _identical,
    ),
    Situation(
        "a tiny task beside a large one like it",
        "shared bottom",
        "20 examples teach nothing, and the 1,000 of the other task are as good.",
        _tiny_beside_large,
    ),
    Situation(
        "the same classes under other names",
        "shared bottom",
        "Heads give the names; the features of all tasks are the same.",
        _renamed_labels,
    ),
    Situation(
        "unrelated tasks, many examples",
        "separate networks",
        "Each task can be learnt alone, and others only take its room.",
        _unrelated_many,
    ),
    Situation(
        "unrelated tasks, few examples",
        "separate networks",
        "Examples are few, but those of the others say nothing of a task.",
        _unrelated_few,
    ),
    Situation(
        "opposite targets for the same inputs",
        "separate networks",
        "No function serves both, and there are no heads that could turn the sign.",
        _opposite,
    ),
]
