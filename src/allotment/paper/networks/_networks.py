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

from torch import nn

from ...allocation import Allocation
from ...modules import ModularLayer, MultiTaskNetwork
from ._blocks import ConvNormReLU, NormReLU, TwoColourStem
from ._same_padding import SameAvgPool2d, SameConv2d, SameMaxPool2d

Allocate = Callable[..., Allocation]  # allocate(n_components, **facts)
Module = TypeVar("Module", bound=nn.Module)


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


def codebooks_network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Two layers of four dense components for 8x8 images, the second of them the output; ours.

    There are no heads: what tasks do not share, they have to keep apart by their gates.

    Args:
        allocate: Makes the allocation of each layer.
        outputs: Classes of each task, by its name.

    >>> from allotment import NoSharing
    >>> codebooks_network(lambda n, **_: NoSharing(2, n), {"a": 10, "b": 10}).layers[1].names
    ['A', 'B', 'C', 'D']
    """
    width, n_classes = 16, max(outputs.values())
    first = _dense_layer(allocate, 4, 64, width, depth=0, last=nn.ReLU())
    second = _dense_layer(allocate, 4, width, n_classes, depth=1)
    return glorot_(MultiTaskNetwork(nn.Flatten(), [first, second], task_names=list(outputs)))


def census_network(
    allocate: Allocate, outputs: Mapping[str, int], n_features: int = 259
) -> MultiTaskNetwork:
    """Two layers of eight dense components of width 32; ours.

    For rows of the census, which have 259 features.
    """
    width = 32
    layers = [
        _dense_layer(allocate, 8, n_inputs, width, depth=depth, last=nn.ReLU())
        for depth, n_inputs in enumerate((n_features, width))
    ]
    return glorot_(MultiTaskNetwork(None, layers, _linear_heads(width, outputs)))


def _dense_layer(
    allocate: Allocate,
    n: int,
    n_inputs: int,
    n_outputs: int,
    *,
    depth: int,
    last: nn.Module | None = None,
) -> ModularLayer:
    """Returns one of two layers of ``n`` dense components, named A, B and so on."""
    components = [dense(n_inputs, n_outputs, last=last) for _ in range(n)]
    allocation = allocate(n, n_features=n_inputs, depth=depth, n_layers=2)
    names = [chr(ord("A") + position) for position in range(n)]
    return ModularLayer(components, allocation, names=names, kinds=["dense"] * n)


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
