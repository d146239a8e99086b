"""Plain training loops to measure against: the Omniglot and clusters networks.

Written as in `reference.py`: eager, one run, one component after another. Nothing uses allotment.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.reference import ModularLayer, initialise, temperature_at

Examples = Sequence[tuple[Tensor, Tensor]]  # each task's images, in uint8, and labels


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
