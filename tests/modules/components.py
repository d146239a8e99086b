"""Components for the tests: lists of every sort, for images ``[B, 4, 6, 6]`` and vectors."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from allotment.modules import ModularLayer
from allotment.paper.networks import (
    ConvNormReLU,
    NormReLU,
    SameAvgPool2d,
    SameConv2d,
    SameMaxPool2d,
)

Components = Callable[[], list[nn.Module]]


class Normed(nn.Module):
    """A module that the stacker does not know: convolution, normalisation, a plain number."""

    def __init__(self, derivative: float = 0.1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.derivative = derivative

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = nn.functional.leaky_relu(self.norm(self.convolution(x)), self.derivative)
        return y


class Gain(nn.Module):
    """A module with a parameter of its own, on top of nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain


class GainedReLU(nn.ReLU):
    """An activation that has a parameter, under a class that had none."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(()))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.gain


def conv(**options: Any) -> nn.Conv2d:
    """Returns a convolution that keeps the size, unless the options say else."""
    usual: dict[str, Any] = {"in_channels": 4, "out_channels": 4, "kernel_size": 3, "padding": 1}
    return nn.Conv2d(**(usual | options))


def times(n: int, make: Callable[[], nn.Module]) -> Components:
    """Returns a function that makes ``n`` components of one architecture."""
    return lambda: [make() for _ in range(n)]


def with_one_activation() -> nn.Module:
    """Returns two convolutions with one activation object in two places."""
    activation = nn.Tanh()
    return nn.Sequential(conv(), activation, conv(), activation)


def with_one_convolution() -> nn.Module:
    """Returns one convolution in two places."""
    convolution = conv()
    return nn.Sequential(convolution, nn.Tanh(), convolution)


def sharing_weights() -> list[nn.Module]:
    """Returns three components, the first two with the same parameters."""
    first, second = conv(), conv()
    second.weight, second.bias = first.weight, first.bias
    return [first, second, conv()]


def of_mixed_architectures() -> list[nn.Module]:
    """Returns components that take turns, so that grouping them changes their order."""
    return [
        conv(),
        nn.MaxPool2d(3, 1, 1),
        Normed(),
        conv(),
        nn.Identity(),
        Normed(),
        conv(kernel_size=5, padding=2),
        nn.MaxPool2d(3, 1, 1),
        conv(),
    ]


FOR_IMAGES: dict[str, Components] = {
    "conv": times(3, conv),
    "one conv": times(1, conv),
    "conv without bias": times(3, lambda: conv(bias=False)),
    "conv in groups": times(3, lambda: conv(groups=2)),
    "conv by channel": times(3, lambda: conv(groups=4, out_channels=8)),
    "conv with stride": times(3, lambda: conv(stride=2, padding=0)),
    "conv with rectangular kernel": times(3, lambda: conv(kernel_size=(1, 3), padding=(0, 1))),
    "conv with dilation": times(3, lambda: conv(dilation=2, padding=2)),
    "conv with padding in words": times(3, lambda: conv(padding="same")),
    "conv with reflected padding": times(3, lambda: conv(padding_mode="reflect")),
    "conv to other channels": times(3, lambda: conv(out_channels=7)),
    "two convs": times(3, lambda: nn.Sequential(conv(), nn.ReLU(), conv(stride=2))),
    "conv, then groups": times(3, lambda: nn.Sequential(conv(), nn.Tanh(), conv(groups=2))),
    "nested": times(
        3,
        lambda: nn.Sequential(
            nn.Sequential(conv(), nn.GELU()), nn.Sequential(nn.Sequential(conv(), nn.ELU()))
        ),
    ),
    "unknown": times(3, Normed),
    "unknown inside": times(3, lambda: nn.Sequential(conv(), Normed(), nn.ReLU(), conv())),
    "norm": times(3, lambda: nn.Sequential(conv(), nn.GroupNorm(2, 4), nn.ReLU())),
    "activation with parameters": times(3, lambda: nn.Sequential(conv(), nn.PReLU(4))),
    "pooling first": times(3, lambda: nn.Sequential(nn.AvgPool2d(2), conv())),
    "flat": times(3, lambda: nn.Sequential(conv(), nn.Flatten(), nn.Linear(144, 5))),
    "same conv": times(3, lambda: SameConv2d(4, 4, 5, 2)),
    "conv with norm": times(3, lambda: ConvNormReLU(4, 4, 3, 2, n_groups=2)),
    "two convs with norms": times(
        3,
        lambda: nn.Sequential(
            ConvNormReLU(4, 8, (1, 7)), ConvNormReLU(8, 4, (7, 1), 2, n_groups=2)
        ),
    ),
    "norm alone": times(3, lambda: NormReLU(2, 4)),
    "largest, mean and conv with norm": lambda: [
        SameMaxPool2d(2),
        SameAvgPool2d(2),
        ConvNormReLU(4, 4, 3, 2),
        SameMaxPool2d(2),
        ConvNormReLU(4, 4, 5, 2),
    ],
    "without parameters": times(3, lambda: nn.MaxPool2d(3, 1, 1)),
    "identity": times(2, nn.Identity),
    "one number": times(3, Gain),
    "mixed": of_mixed_architectures,
    "shared weights": sharing_weights,
}

FOR_VECTORS: dict[str, Components] = {
    "linear": times(3, lambda: nn.Linear(4, 5)),
    "linear without bias": times(3, lambda: nn.Linear(4, 5, bias=False)),
    "two linear": times(3, lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5))),
    "shallow and deep": lambda: [
        component
        for _ in range(2)
        for component in (
            nn.Sequential(nn.Linear(4, 5), nn.ReLU()),
            nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 5), nn.ReLU()),
        )
    ],
    "layer norm": times(3, lambda: nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5))),
}


def plainly(components: Sequence[nn.Module], weights: Tensor, x: Tensor) -> Tensor:
    """Returns the weighted sum of the components' outputs, one component after another."""
    return torch.stack([w * c(x) for w, c in zip(weights, components, strict=True)]).sum(dim=0)


def stacked(layer: ModularLayer) -> ModularLayer:
    """Returns a copy of a layer in the form in which it trains fastest."""
    copy = deepcopy(layer)
    copy.stack_()
    return copy
