"""Plain training loops to measure against: the small networks.

Written the way one would at first: eager, one run at a time, the components of a layer one after
another, the gates from ``torch.nn.functional``. Nothing here uses allotment. Each loop is a
generator that yields the mean loss of a round, which is one batch and one step for every task.
"""

from collections.abc import Iterator, Sequence
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

N_TASKS = 4
N_COMPONENTS = 4


def temperature_at(step: int) -> float:
    """Returns the temperature of the gates at this step, counted from 0."""
    return max(0.5, 50.0 / sqrt(step + 1))


class ModularLayer(nn.Module):
    """Components side by side, with a gate for each pair of a task and a component."""

    def __init__(
        self, components: Sequence[nn.Module], n_tasks: int = N_TASKS, p_init: float = 0.5
    ) -> None:
        super().__init__()
        self.components = nn.ModuleList(components)
        chances = torch.tensor([p_init, 1 - p_init])
        self.logits = nn.Parameter(chances.log().repeat(n_tasks, len(components), 1))

    def forward(self, x: Tensor, task: int, temperature: float) -> Tensor:
        """Returns the mean of the components whose gates are open in this draw."""
        gates = F.gumbel_softmax(self.logits[task], tau=temperature, hard=True)[:, 0]
        weights = gates / gates.sum().clamp_min(1.0)
        outputs = torch.stack([component(x) for component in self.components])
        y: Tensor = torch.tensordot(weights, outputs, dims=1)
        return y


class PairsNetwork(nn.Module):
    """Four components of three linear layers, no heads."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = ModularLayer([self._component() for _ in range(N_COMPONENTS)])
        initialise(self)

    @staticmethod
    def _component() -> nn.Module:
        return nn.Sequential(
            nn.Linear(128, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)
        )

    def forward(self, x: Tensor, task: int, temperature: float) -> Tensor:
        """Returns the task's outputs, shape ``[B]``."""
        y: Tensor = self.layer(x, task, temperature)
        return y.squeeze(1)


class MnistNetwork(nn.Module):
    """Three layers of four convolutions, dropout, a linear head for each task."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((1, 5), (4, 3), (4, 3))  # channels in, side of the kernel
        self.layers = nn.ModuleList(
            ModularLayer([self._component(*size) for _ in range(N_COMPONENTS)]) for size in sizes
        )
        self.dropout = nn.Dropout(0.5)
        self.heads = nn.ModuleList(nn.Linear(36, 10) for _ in range(N_TASKS))
        initialise(self)

    @staticmethod
    def _component(n_channels: int, size: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(n_channels, 4, size), nn.ReLU())

    def forward(self, x: Tensor, task: int, temperature: float) -> Tensor:
        """Returns the task's logits, shape ``[B, 10]``."""
        first, second, third = self.layers
        x = F.avg_pool2d(first(x, task, temperature), 2)
        x = F.avg_pool2d(second(x, task, temperature), 2)
        x = third(x, task, temperature).flatten(1)
        y: Tensor = self.heads[task](self.dropout(x))
        return y


def initialise(network: nn.Module) -> None:
    """Draws kernels from Glorot's uniform distribution and sets biases to zero."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(module.weight)
            assert module.bias is not None
            nn.init.zeros_(module.bias)


def draw_sines(direction: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Returns fresh inputs and targets of a synthetic task."""
    x = torch.randn(n, len(direction), device=direction.device)
    z = x @ direction
    i = torch.arange(1, 7, device=direction.device)
    y = z + torch.sin(i * z.unsqueeze(1) + (i - 1) ** 2).sum(dim=1)
    return x, y + 0.01 * torch.randn(n, device=direction.device)


def train_two_pairs(n_rounds: int, device: torch.device) -> Iterator[Tensor]:
    """Trains one run of two_pairs."""
    orthogonal = torch.linalg.qr(torch.randn(128, 2, device=device)).Q.T
    directions = orthogonal[[0, 0, 1, 1]]  # two pairs of equal tasks
    network = PairsNetwork().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01, fused=True)
    step = 0
    for _ in range(n_rounds):
        losses = []
        for task in torch.randperm(N_TASKS).tolist():
            x, y = draw_sines(directions[task], 64)
            loss = F.mse_loss(network(x, task, temperature_at(step)), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.detach())
            step += 1
        yield torch.stack(losses).mean()


def train_mnist(
    n_rounds: int, images: Tensor, labels: Tensor, device: torch.device
) -> Iterator[Tensor]:
    """Trains one run of 4-MNISTs on images ``[N, 28, 28]`` in uint8; copies are turned before."""
    upright = images.unsqueeze(1).to(device)
    turned = torch.rot90(upright, k=-1, dims=(2, 3)).contiguous()
    inputs = (upright, upright, turned, turned)
    targets = labels.long().to(device)
    network = MnistNetwork().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005, fused=True)
    step = 0
    for _ in range(n_rounds):
        losses = []
        for task in torch.randperm(N_TASKS).tolist():
            rows = torch.randint(len(targets), (16,), device=device)
            x = inputs[task][rows].float() / 255
            loss = F.cross_entropy(network(x, task, temperature_at(step)), targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            step += 1
        yield torch.stack(losses).mean()
