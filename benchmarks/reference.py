"""Plain training loops to measure against.

Written the way one would at first: eager, one run at a time, the components of a layer one after
another, the gates from ``torch.nn.functional``. Nothing here uses allotment. Each loop is a
generator that yields the mean loss of a round, which is one batch and one step for every task.
"""

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Any

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


class SameConv2d(nn.Conv2d):
    """A convolution that pads as the authors' library does: one more pixel after than before."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns the convolved images."""
        return super().forward(F.pad(x, same_padding(x, self.kernel_size, self.stride)))


def same_padding(x: Tensor, kernel: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Returns the padding of an image's width and height, in the order that `F.pad` takes."""
    padding: list[int] = []
    for size, side, step in zip(x.shape[:1:-1], kernel[::-1], stride[::-1], strict=True):
        total = max((-(-size // step) - 1) * step + side - size, 0)
        padding += [total // 2, total - total // 2]
    return padding


def conv_norm_relu(
    n_inputs: int, n_outputs: int, kernel: tuple[int, int], stride: int = 1
) -> nn.Sequential:
    """Returns a convolution, group normalisation and ReLU."""
    return nn.Sequential(
        SameConv2d(n_inputs, n_outputs, kernel, stride),
        nn.GroupNorm(4, n_outputs, eps=1e-6),
        nn.ReLU(),
    )


class SameMaxPool(nn.Module):
    """The largest of 3x3 pixels, at "same" padding."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Returns the pooled images."""
        padding = same_padding(x, (3, 3), (self.stride, self.stride))
        return F.max_pool2d(F.pad(x, padding, value=float("-inf")), 3, self.stride)


class SameAvgPool(nn.Module):
    """The mean of those of 3x3 pixels that lie inside the image."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Returns the pooled images."""
        left, right, top, bottom = same_padding(x, (3, 3), (self.stride, self.stride))
        if (left, top) == (right, bottom):
            return F.avg_pool2d(x, 3, self.stride, (top, left), count_include_pad=False)
        return F.avg_pool2d(x, 3, self.stride, (top, left), ceil_mode=True, count_include_pad=False)


def omniglot_components(stride: int) -> list[nn.Module]:
    """Returns the seven components of one layer of the Omniglot network."""
    kernels: list[tuple[tuple[int, int], tuple[int, int]]] = [
        ((3, 3), (3, 3)),
        ((5, 5), (5, 5)),
        ((7, 7), (7, 7)),
        ((1, 7), (7, 1)),
    ]
    convolutions = [
        nn.Sequential(conv_norm_relu(48, 48, first), conv_norm_relu(48, 48, second, stride))
        for first, second in kernels
    ]
    identity = nn.Identity() if stride == 1 else nn.Conv2d(48, 48, 1, stride)
    return [*convolutions, SameMaxPool(stride), SameAvgPool(stride), identity]


def clusters_components() -> list[nn.Module]:
    """Returns the sixteen components of one layer of the clusters network."""
    return [conv_norm_relu(8, 8, (size, size), 2) for size in (3, 5) for _ in range(8)]


class ImageNetwork(nn.Module):
    """A stem, modular layers with a norm after each, dropout, a linear head for each task."""

    def __init__(
        self,
        channels: tuple[int, int],
        layers: Sequence[Sequence[nn.Module]],
        widths: Sequence[int],
        p_init: float,
    ) -> None:
        super().__init__()
        n_channels = channels[1]
        self.stem = conv_norm_relu(*channels, (1, 1))
        self.layers = nn.ModuleList(ModularLayer(layer, len(widths), p_init) for layer in layers)
        self.norms = nn.ModuleList(nn.GroupNorm(4, n_channels, eps=1e-6) for _ in layers)
        self.dropout = nn.Dropout(0.5)
        self.heads = nn.ModuleList(nn.Linear(16 * n_channels, width) for width in widths)
        initialise(self)

    def forward(self, x: Tensor, task: int, temperature: float) -> Tensor:
        """Returns the task's logits, shape ``[B, width]``."""
        x = self.stem(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = F.relu(norm(layer(x, task, temperature)))
        y: Tensor = self.heads[task](self.dropout(x.flatten(1)))
        return y

    def p_open(self, task: int) -> Tensor:
        """Returns the probability of each gate of a task to be open."""
        layers = [layer for layer in self.layers if isinstance(layer, ModularLayer)]
        return torch.cat([layer.logits[task].softmax(dim=-1)[:, 0] for layer in layers])


Examples = Sequence[tuple[Tensor, Tensor]]  # each task's images, in uint8, and labels


def train_omniglot(n_rounds: int, examples: Examples, device: torch.device) -> Iterator[Tensor]:
    """Trains one run of the Omniglot network, on images ``[N, 1, 105, 105]`` of 0 and 1."""
    layers = [omniglot_components(stride) for stride in (2, 2, 1, 2, 2, 1, 2, 1)]
    widths = [int(targets.max()) + 1 for _, targets in examples]
    network = ImageNetwork((1, 48), layers, widths, p_init=0.97).to(device)
    named = dict(network.named_parameters())
    logits = [p for name, p in named.items() if name.endswith("logits")]
    biases = [m.bias for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    apart = {id(parameter) for parameter in (*logits, *biases)}
    weights = [parameter for parameter in network.parameters() if id(parameter) not in apart]
    groups: list[dict[str, Any]] = [
        {"params": weights, "weight_decay": 3e-4},
        {"params": biases},
        {"params": logits, "lr": 2e-3},
    ]
    optimizer = torch.optim.Adam(groups, lr=1e-4, fused=True)
    return _train_images(n_rounds, network, optimizer, examples, 16, 1.0, device)


def train_clusters(n_rounds: int, examples: Examples, device: torch.device) -> Iterator[Tensor]:
    """Trains one run of the clusters network, on images ``[N, 3, 32, 32]``."""
    layers = [clusters_components() for _ in range(3)]
    widths = [int(targets.max()) + 1 for _, targets in examples]
    network = ImageNetwork((3, 8), layers, widths, p_init=0.5).to(device)
    named = dict(network.named_parameters())
    logits = [p for name, p in named.items() if name.endswith("logits")]
    weights = [p for name, p in named.items() if not name.endswith("logits")]
    groups: list[dict[str, Any]] = [{"params": weights}, {"params": logits, "lr": 6e-3}]
    optimizer = torch.optim.Adam(groups, lr=3e-4, fused=True)
    return _train_images(n_rounds, network, optimizer, examples, 32, 1 / 255, device, budget=0.5)


def _train_images(
    n_rounds: int,
    network: ImageNetwork,
    optimizer: torch.optim.Optimizer,
    examples: Examples,
    batch_size: int,
    scale: float,
    device: torch.device,
    budget: float | None = None,
) -> Iterator[Tensor]:
    parts = [(x.to(device), y.long().to(device)) for x, y in examples]
    step = 0
    for _ in range(n_rounds):
        losses = []
        for task in torch.randperm(len(parts)).tolist():
            x, y = parts[task]
            rows = torch.randint(len(y), (batch_size,), device=device)
            outputs = network(x[rows].float() * scale, task, temperature_at(step))
            loss = F.cross_entropy(outputs, y[rows])
            total = loss
            if budget is not None:
                total = loss + (network.p_open(task).mean() - budget).clamp_min(0.0)
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            losses.append(loss.detach())
            step += 1
        yield torch.stack(losses).mean()
