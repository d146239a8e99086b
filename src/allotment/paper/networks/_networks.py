"""The paper's networks, and a small one for the bundled digits, as plain functions of sizes.

Each takes allocate, a function from a number of components to an allocation, and outputs, how many
outputs each task has, by name. Allocate is told facts about the layer, for ways of sharing that ask
for them: ``n_features``, the channels or features of its input, and ``depth``, its place among the
``n_layers`` modular ones, from 0. The larger networks are made of `ConvNormReLU`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..._ops import norm_relu
from ...allocation import Allocation
from ...modules import ModularLayer, MultiTaskNetwork, split_components
from ._same_padding import (
    SameAvgPool2d,
    SameConv2d,
    SameMaxPool2d,
    TwoColourImage,
    same_convolution,
)

Allocate = Callable[..., Allocation]  # allocate(n_components, **facts)
Module = TypeVar("Module", bound=nn.Module)
EPSILON = 1e-6  # the authors' code


class NormReLU(nn.GroupNorm):
    """Group normalisation and ReLU, in few passes over memory where the device allows."""

    def __init__(self, n_groups: int, n_channels: int) -> None:
        super().__init__(n_groups, n_channels, eps=EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        return norm_relu(x, None, self.weight, self.bias, self.num_groups, self.eps)


class ConvNormReLU(nn.Module):
    """A "same" convolution with a bias, group normalisation and ReLU.

    The bias is added by the normalisation, which spares a pass over the images.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        *,
        n_groups: int = 4,
    ) -> None:
        super().__init__()
        self.conv = SameConv2d(in_channels, out_channels, kernel, stride)
        self.norm = NormReLU(n_groups, out_channels)

    def forward(self, x: Tensor | TwoColourImage) -> Tensor:
        norm = self.norm
        y = same_convolution(x, self.conv.weight, None, self.conv.stride)
        return norm_relu(y, self.conv.bias, norm.weight, norm.bias, norm.num_groups, norm.eps)

    def forward_stacked(self, stacked: Mapping[str, Tensor], x: Tensor | TwoColourImage) -> Tensor:
        """Returns what several make of one input, as one convolution with more channels."""
        weight = stacked["conv.weight"]  # [C, O, I, H, W]
        y = same_convolution(x, weight.flatten(0, 1), None, self.conv.stride)
        bias, scale, shift = (
            stacked[name].flatten() for name in ("conv.bias", "norm.weight", "norm.bias")
        )
        n_groups = self.norm.num_groups * weight.shape[0]
        return split_components(norm_relu(y, bias, scale, shift, n_groups, self.norm.eps), weight)


class TwoColourStem(nn.Module):
    """`ConvNormReLU` of single pixels, of one channel, which makes two colours of ink on paper.

    Images of type ``bool``, ink being true, become a `TwoColourImage`, which the layer behind has
    to take; others are treated as by any block.
    """

    accepted_dtypes = (torch.bool,)

    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.conv = SameConv2d(1, n_channels, 1)
        self.norm = NormReLU(4, n_channels)

    def forward(self, x: Tensor) -> Tensor | TwoColourImage:
        """Returns the features of images ``[B, 1, H, W]``."""
        conv, norm = self.conv, self.norm
        if x.dtype == torch.bool:
            return self._two_colours(x)
        y = same_convolution(x, conv.weight, None, conv.stride)
        return norm_relu(y, conv.bias, norm.weight, norm.bias, norm.num_groups, norm.eps)

    def _two_colours(self, ink: Tensor) -> TwoColourImage:
        conv, norm = self.conv, self.norm
        assert conv.bias is not None
        bias = conv.bias.to(norm.weight.dtype)
        alone = torch.stack([bias, bias + conv.weight.flatten()])  # paper and ink, [2, C]
        share = ink.flatten(1).to(bias.dtype).mean(1, keepdim=True)
        shares = torch.cat([1 - share, share], dim=1).unsqueeze(2)  # [B, 2, 1]
        # The statistics over all pixels are those of two colours in these shares.
        by_group = alone.unflatten(1, (norm.num_groups, -1))  # [2, G, C / G]
        mean = (shares * by_group.mean(2)).sum(1)  # [B, G]
        centred = by_group - mean[:, None, :, None]  # [B, 2, G, C / G]
        variance = (shares * centred.square().mean(3)).sum(1)  # [B, G]
        normalised = centred / (variance + norm.eps).sqrt()[:, None, :, None]
        colours = F.relu(normalised.flatten(2) * norm.weight + norm.bias)
        # Channels last, as convolutions take them.
        marks = torch.stack([~ink, ink], dim=-1).to(conv.weight.dtype).squeeze(1).movedim(-1, 1)
        return TwoColourImage(marks, colours)


def glorot_(module: Module) -> Module:
    """Draws kernels from Glorot's uniform distribution and sets biases to zero, in place.

    These are the defaults of the library the authors used, not torch's. An allocation starts as it
    was made. Returns the module.
    """
    allocations = (part for part in module.modules() if isinstance(part, Allocation))
    left = {inner for allocation in allocations for inner in allocation.modules()}
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d) and part not in left:
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module


def dense(*sizes: int, last: nn.Module | None = None) -> nn.Sequential:
    """Returns linear layers of these sizes with ReLU between them, and ``last`` at the end."""
    modules: list[nn.Module] = []
    for n_inputs, n_outputs in pairwise(sizes):
        modules += [nn.Linear(n_inputs, n_outputs), nn.ReLU()]
    modules[-1:] = [] if last is None else [last]
    return nn.Sequential(*modules)


def _linear_heads(n_features: int, outputs: Mapping[str, int]) -> dict[str, nn.Module]:
    return {name: nn.Linear(n_features, n_outputs) for name, n_outputs in outputs.items()}


def transfer_network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Two shallow and two deep components, a linear head a task (paper, Appendix A-2).

    They alternate, so that without sharing each of two tasks has one of either.
    """
    components = [
        component
        for _ in range(2)
        for component in (dense(128, 4, last=nn.ReLU()), dense(128, 4, 4, last=nn.ReLU()))
    ]
    layer = ModularLayer(components, allocate(4, n_features=128), names=["shallow", "deep"] * 2)
    return glorot_(MultiTaskNetwork(None, [layer], _linear_heads(4, outputs)))


def pairs_network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Four components of three layers and no heads (paper, Appendix A-3)."""
    components = [dense(128, 16, 16, 1) for _ in range(4)]
    allocation = allocate(4, n_features=128)
    layer = ModularLayer(components, allocation, names=["A", "B", "C", "D"], kinds=["dense"] * 4)
    return glorot_(MultiTaskNetwork(None, [layer], task_names=list(outputs)))


def map_network(allocate: Allocate, outputs: Mapping[str, int], *, width: int) -> MultiTaskNetwork:
    """As many components of two layers as tasks, and a linear head for each task; ours.

    Heads let tasks that share every component differ, as networks in use have them.
    """
    n = len(outputs)
    components = [dense(128, width, width, last=nn.ReLU()) for _ in range(n)]
    names = [chr(ord("A") + position) for position in range(n)]
    layer = ModularLayer(components, allocate(n, n_features=128), names=names, kinds=["dense"] * n)
    return glorot_(MultiTaskNetwork(None, [layer], _linear_heads(width, outputs)))


def digits_network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Two layers of four 3x3 convolutions for 8x8 images; ours, after the 4-MNISTs network."""
    first, second = (
        _convolutions(partial(allocate, depth=depth, n_layers=2), n_channels, 3)
        for depth, n_channels in enumerate((1, 4))
    )
    heads = _linear_heads(4 * 4 * 4, outputs)
    return glorot_(MultiTaskNetwork(None, [first, second, nn.Flatten()], heads))


def census_network(
    allocate: Allocate, outputs: Mapping[str, int], n_features: int = 259
) -> MultiTaskNetwork:
    """Two layers of eight dense components of width 32; ours.

    For rows of the census, which have 259 features.
    """
    width, n = 32, 8
    names = [chr(ord("A") + position) for position in range(n)]

    def layer(depth: int, n_inputs: int) -> ModularLayer:
        components = [dense(n_inputs, width, last=nn.ReLU()) for _ in names]
        allocation = allocate(n, n_features=n_inputs, depth=depth, n_layers=2)
        return ModularLayer(components, allocation, names=names, kinds=["dense"] * n)

    layers = [layer(depth, n_inputs) for depth, n_inputs in enumerate((n_features, width))]
    return glorot_(MultiTaskNetwork(None, layers, _linear_heads(width, outputs)))


def mnist_network(
    allocate: Allocate, outputs: Mapping[str, int], n_components: int = 4
) -> MultiTaskNetwork:
    """Three layers of four convolutions with four filters each (paper, Appendix B)."""
    first, second, third = (partial(allocate, depth=depth, n_layers=3) for depth in range(3))
    layers = [
        _convolutions(first, 1, 5, n_components),
        nn.AvgPool2d(2),
        _convolutions(second, 4, 3, n_components),
        nn.AvgPool2d(2),
        _convolutions(third, 4, 3, n_components),
        nn.Flatten(),
    ]
    heads = _linear_heads(3 * 3 * 4, outputs)
    return glorot_(MultiTaskNetwork(None, layers, heads, dropout=0.5))


def _convolutions(allocate: Allocate, n_channels: int, size: int, n: int = 4) -> ModularLayer:
    """Returns a layer of convolutions with four filters each."""
    # One letter each, and after the alphabet the next sign: only a benchmark goes so far.
    names = [chr(ord("A") + position) for position in range(n)]
    components = [nn.Sequential(nn.Conv2d(n_channels, 4, size), nn.ReLU()) for _ in names]
    allocation = allocate(n, n_features=n_channels)
    return ModularLayer(components, allocation, names=names, kinds=[f"conv{size}x{size}"] * n)


def omniglot_network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Eight layers of four kinds of convolution, two pools and identity (paper, Appendix C).

    For images of 105x105 pixels. A layer's stride is that of each component's last operation.
    """
    n_channels, strides = 48, (2, 2, 1, 2, 2, 1, 2, 1)

    def layer(depth: int, stride: int) -> list[nn.Module]:
        def twice(first: tuple[int, int], second: tuple[int, int]) -> nn.Module:
            return nn.Sequential(
                ConvNormReLU(n_channels, n_channels, first),
                ConvNormReLU(n_channels, n_channels, second, stride),
            )

        identity = nn.Identity() if stride == 1 else SameConv2d(n_channels, n_channels, 1, stride)
        components = {
            "conv3x3": twice((3, 3), (3, 3)),
            "conv5x5": twice((5, 5), (5, 5)),
            "conv7x7": twice((7, 7), (7, 7)),
            "conv1x7-7x1": twice((1, 7), (7, 1)),
            "max pool": SameMaxPool2d(stride),
            "average pool": SameAvgPool2d(stride),
            "identity": identity,
        }
        allocation = allocate(
            len(components), n_features=n_channels, depth=depth, n_layers=len(strides)
        )
        modular = ModularLayer(list(components.values()), allocation, names=list(components))
        return [modular, NormReLU(4, n_channels)]

    stem = TwoColourStem(n_channels)
    layers = [module for place in enumerate(strides) for module in layer(*place)]
    heads = _linear_heads(4 * 4 * n_channels, outputs)
    return glorot_(MultiTaskNetwork(stem, [*layers, nn.Flatten()], heads, dropout=0.5))


def clusters_network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Three layers of eight 3x3 and eight 5x5 convolutions (paper, Section V-C).

    For images of 32x32 pixels and three channels.
    """
    n_channels = 8
    kinds = [f"conv{size}x{size}" for size in (3, 5) for _ in range(8)]
    names = [f"{kind} {copy}" for kind, copy in zip(kinds, 2 * "ABCDEFGH", strict=True)]

    def layer(depth: int) -> list[nn.Module]:
        components = [
            ConvNormReLU(n_channels, n_channels, size, 2) for size in (3, 5) for _ in range(8)
        ]
        allocation = allocate(len(components), n_features=n_channels, depth=depth, n_layers=3)
        modular = ModularLayer(components, allocation, names=names, kinds=kinds)
        return [modular, NormReLU(4, n_channels)]

    stem = ConvNormReLU(3, n_channels, 1)
    layers = [module for depth in range(3) for module in layer(depth)]
    heads = _linear_heads(4 * 4 * n_channels, outputs)
    return glorot_(MultiTaskNetwork(stem, [*layers, nn.Flatten()], heads, dropout=0.5))
