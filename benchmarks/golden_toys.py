"""Small tasks, networks and runs that golden values are taken from."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import golden_adapter as al

N_INPUTS, SIDE, N_CHANNELS = 6, 8, 8
USUAL = {"rounds": 25, "batch_size": 8, "learning_rate": 0.02}  # two blocks of rounds and a half

ALLOCATIONS: dict[str, Callable[[int, int], al.Allocation]] = {
    "gumbel": partial(al.GumbelMatrix, p_init=0.7, temperature=al.Annealing(start=5.0)),
    "shared bottom, sum": partial(al.SharedBottom, reduce="sum"),
    "shared bottom, mean": partial(al.SharedBottom, reduce="mean"),
    "no sharing": al.NoSharing,
    "fixed, sum": lambda t, c: al.FixedMatrix(torch.ones(t, c).tril(), reduce="sum"),
    "fixed, mean": lambda t, c: al.FixedMatrix((torch.arange(t * c) % 4 > 0).view(t, c)),
}


class Line(al.GeneratedDataset):
    """Points on a line, drawn anew for every batch."""

    def __init__(self, seed: int) -> None:
        self.direction = torch.randn(N_INPUTS, generator=torch.Generator().manual_seed(seed))

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, N_INPUTS, generator=generator)
        return x, x @ self.direction


def counts_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the loss of counts whose logarithms are predicted."""
    return (outputs.view_as(targets).exp() - outputs.view_as(targets) * targets).mean()


def tasks_on(x: Tensor, names: Sequence[str]) -> list[al.Task]:
    """Returns tasks on the same inputs, with all three splits."""
    scores = x.flatten(1).float() @ torch.randn(x[0].numel(), 4) / x[0].numel()
    scores = scores / scores.std()
    targets = {
        "kind": scores[:, :3].argmax(dim=1),
        "sort": scores.argmax(dim=1),
        "size": scores[:, 0].sin(),
        "place": scores[:, :3].cos(),
        "count": scores[:, 0].abs().round().int(),
    }
    outputs = {"kind": 3, "sort": 4, "count": 1}

    def task(name: str) -> al.Task:
        loss = counts_loss if name == "count" else None
        train, validation, test = zip(x.chunk(3), targets[name].chunk(3), strict=True)
        return al.Task(name, train, validation, test, outputs.get(name, 0), loss)

    return [task(name) for name in names]


def of_vectors(
    n_runs: int, names: Sequence[str] = ("kind", "sort"), allocation: str = "gumbel", **flat: Any
) -> list[al.Run]:
    """Returns runs on vectors; without names of tasks, on three lines."""
    torch.manual_seed(7)
    lines = [al.Task(f"line {t}", Line(t)) for t in range(3)]
    tasks = tasks_on(torch.randn(120, N_INPUTS), names) if names else lines
    n_tasks, n_components = len(tasks), 2 * len(tasks)

    def network() -> al.MultiTaskNetwork:
        components = [
            nn.Sequential(nn.Linear(N_INPUTS, 5), nn.Tanh(), nn.Linear(5, 4))
            for _ in range(n_components)
        ]
        layer = al.ModularLayer(components, ALLOCATIONS[allocation](n_tasks, n_components))
        heads = {task.name: nn.Linear(4, task.n_outputs) for task in tasks}
        return al.MultiTaskNetwork(None, [layer], heads)

    return [_run(network, tasks, seed, **flat) for seed in range(n_runs)]


def of_pictures(
    n_runs: int,
    special: str = "",
    names: Sequence[str] = ("kind", "sort"),
    *,
    n_layers: int = 2,
    ink: bool = False,
    **flat: Any,
) -> list[al.Run]:
    """Returns runs on small images, grey or in ink: mixed components, dropout before the heads."""
    torch.manual_seed(11)
    images = torch.randint(256, (90, 1, SIDE, SIDE), dtype=torch.uint8)
    tasks = tasks_on(images < 60 if ink else images, names)

    def layer() -> list[nn.Module]:
        components = _components(special)
        allocation = al.GumbelMatrix(len(tasks), len(components), p_init=0.6)
        return [al.ModularLayer(components, allocation), al.NormReLU(4, N_CHANNELS)]

    def head(n_outputs: int) -> nn.Module:
        n_features = N_CHANNELS * SIDE**2
        if special != "module heads":
            return nn.Linear(n_features, n_outputs)
        return nn.Sequential(nn.Linear(n_features, 5), nn.ReLU(), nn.Linear(5, n_outputs))

    def network() -> al.MultiTaskNetwork:
        heads = {task.name: head(task.n_outputs) for task in tasks}
        layers = [module for _ in range(n_layers) for module in layer()]
        stem = al.ConvNormReLU(1, N_CHANNELS, 1)
        return al.MultiTaskNetwork(stem, [*layers, nn.Flatten()], heads, dropout=0.4)

    return [_run(network, tasks, seed, **flat) for seed in range(n_runs)]


def _run(
    build: Callable[[], al.MultiTaskNetwork], tasks: list[al.Task], seed: int, **flat: Any
) -> al.Run:
    torch.manual_seed(seed)
    return al.run(build(), tasks, seed, **USUAL | flat)


def _components(special: str) -> list[nn.Module]:
    n = N_CHANNELS
    ours = al.ConvNormReLU(n, n, 3)
    torchs = nn.Sequential(nn.Conv2d(n, n, 1), nn.ReLU())
    pools = [al.SameMaxPool2d(1), al.SameAvgPool2d(1), nn.Identity(), al.SameConv2d(n, n, (1, 3))]
    last: nn.Module = al.ConvNormReLU(n, n, 3)
    match special:
        case "batch norm":
            last = nn.Sequential(nn.Conv2d(n, n, 3, padding=1), nn.BatchNorm2d(n), nn.ReLU())
        case "inner dropout":
            last = nn.Sequential(nn.Conv2d(n, n, 1), nn.Dropout(0.3))
        case "frozen":
            last.requires_grad_(False)
    return [ours, torchs, *pools, last]
