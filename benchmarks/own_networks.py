"""Measures `train` on networks of people's own beside the loop that they would write.

The loop uses the same modular layers, torch's Adam and the examples on the device: what is measured
is what `fit` adds or saves, not the layers. Segments of both are timed in turns, as in `speed.py`.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
import allotment as al
from benchmarks.contestants import Contestant
from benchmarks.measurement import show, speed_record, take_turns, write

NAMES = ("a", "b", "c")
N_CLASSES, N_EXAMPLES = 5, 2_000
ROUNDS_PER_TURN = 10
MANY = 1_000_000  # rounds: it goes on as long as it is asked


class Block(nn.Module):
    """A residual block, as anybody writes it."""

    def __init__(self, n_in: int, n_out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(8, n_out), nn.GroupNorm(8, n_out)
        same = stride == 1 and n_in == n_out
        self.short = nn.Identity() if same else nn.Conv2d(n_in, n_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    """Eighteen layers of a sixteenth of the usual size, for images of 16 x 16."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        for n, (n_in, n_out) in enumerate(pairwise(sizes), start=1):
            blocks = nn.Sequential(Block(n_in, n_out, 1 if n == 1 else 2), Block(n_out, n_out))
            self.add_module(f"layer{n}", blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for n in range(1, 5):
            x = self.get_submodule(f"layer{n}")(x)
        return x.mean((2, 3))


class Transformer(nn.Module):
    """Four encoder layers on sequences of twelve vectors."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(16, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.encoder(self.first(x))
        return y.mean(1)


def heads(width: int) -> dict[str, nn.Module]:
    """Returns a head for each task."""
    return {name: nn.Linear(width, N_CLASSES) for name in NAMES}


def small() -> al.MultiTaskNetwork:
    """Returns two modular layers of four components."""
    layers: list[nn.Module] = []
    for _ in range(2):
        components = [nn.Linear(64, 64) for _ in range(4)]
        layers += [al.ModularLayer(components, al.GumbelMatrix(len(NAMES), 4)), nn.ReLU()]
    return al.MultiTaskNetwork(nn.Linear(32, 64), layers, heads(64))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "own small network": (small, (32,), 64),
    "own ResNet-18": (
        lambda: al.modularize(ResNet(), {"layer3": 3, "layer4": 3}, heads=heads(128)),
        (3, 16, 16),
        16,
    ),
    "own transformer": (
        lambda: al.modularize(Transformer(), {"encoder.layers.*.linear1": 3}, heads=heads(64)),
        (12, 16),
        32,
    ),
}


def made_up_tasks(shape: tuple[int, ...]) -> list[al.Task]:
    """Returns tasks of random examples."""
    generator = torch.Generator().manual_seed(0)
    return [
        al.Task(
            name,
            (
                torch.randn(N_EXAMPLES, *shape, generator=generator),
                torch.randint(N_CLASSES, (N_EXAMPLES,), generator=generator),
            ),
        )
        for name in NAMES
    ]


def own_loop(
    network: nn.Module, tasks: list[al.Task], batch_size: int, device: torch.device
) -> Iterator[float]:
    """Trains as a person would write it; yields the mean loss of ten rounds."""
    network.to(device).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    examples = [[part.to(device) for part in task.train.examples()] for task in tasks]
    while True:
        losses = []
        for _ in range(ROUNDS_PER_TURN):
            for t in torch.randperm(len(tasks)).tolist():
                x, y = examples[t]
                rows = torch.randint(len(x), (batch_size,), device=device)
                loss = F.cross_entropy(network(x[rows], t), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
        yield float(torch.stack(losses).mean())


def contestants(name: str, n_runs: list[int], device: torch.device) -> list[Contestant]:
    """Returns the loop of one's own, and ours with so many runs."""
    make, shape, batch_size = NETWORKS[name]
    tasks, steps = made_up_tasks(shape), ROUNDS_PER_TURN * len(NAMES)
    torch.manual_seed(0)
    loop = own_loop(make(), tasks, batch_size, device)
    found = [Contestant("own loop, one run", 1, "float32", loop, steps, MANY)]
    settings = al.TrainingSettings(rounds=MANY, batch_size=batch_size)
    for n in n_runs:
        torch.manual_seed(0)
        network = make()
        turns = al.train(
            [al.Run(network, tasks, seed, settings) for seed in range(n)], device=device
        )
        label = "allotment, one run" if n == 1 else f"allotment, {n} runs together"
        found.append(Contestant(label, n, "float32", turns, steps, MANY // ROUNDS_PER_TURN))
    return found


def main() -> int:
    """Measures one network, prints its table, and writes its record if asked to."""
    parser = argparse.ArgumentParser(description="Measures `train` beside a loop of one's own.")
    parser.add_argument("network", choices=[name.removeprefix("own ") for name in NETWORKS])
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 4], metavar="N")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--segments", type=int, default=5, metavar="N")
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long is a segment")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args()
    name, device = f"own {options.network}", torch.device(options.device)
    ways = contestants(name, options.runs, device)
    timings = take_turns(ways, options.seconds, options.segments, device)
    record = speed_record("own_networks.py", name, timings, str(device))
    show(record)
    write(record, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
