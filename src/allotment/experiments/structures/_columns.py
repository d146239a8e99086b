"""Networks whose modular layers are columns side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from ...modules import ColumnLayer, ModularLayer, MultiTaskNetwork
from ._blueprint import Blueprint, assembled, n_channels_of, side_by_side

_STATISTICS = nn.modules.batchnorm._BatchNorm


@dataclass(frozen=True)
class Place:
    """A modular layer of the network that is to become a layer of columns.

    Attributes:
        components: Those of all networks that were built, one network after another.
        names: Their names.
        kinds: What they are.
        facts: What the network tells of the layer.
        n_channels: Channels or features that come out of it; a function, since not all tell.
        is_first: Whether it is the network's first one.
        is_last: Whether it is the network's last one.
        n_next: The number of components in the next one; 0 where there is none.
    """

    components: Sequence[nn.Module]
    names: Sequence[str]
    kinds: Sequence[str]
    facts: Mapping[str, Any]
    n_channels: Callable[[], int]
    is_first: bool
    is_last: bool
    n_next: int


def with_columns(
    plans: Sequence[Blueprint], column: Callable[[Place], ColumnLayer]
) -> MultiTaskNetwork:
    """Returns a network with a layer of columns in the place of each modular layer.

    Components are those of all ``plans``, one after another. The stem, plain layers and heads are
    the first one's: all streams pass the same plain layers.
    """
    network = plans[0].network
    _check_between(network)
    columns = iter([column(place) for place in _places(plans)])
    layers = [
        next(columns) if isinstance(layer, ModularLayer) else layer for layer in network.layers
    ]
    return assembled(network, layers)


def _places(plans: Sequence[Blueprint]) -> list[Place]:
    rows = list(zip(*(plan.network.modular_layers for plan in plans), strict=True))
    parts = [side_by_side(layers) for layers in rows]
    sizes = [len(components) for components, _ in parts] + [0]
    return [
        Place(
            components=components,
            names=_numbered(layers),
            kinds=kinds,
            facts=plans[0].facts[layers[0].allocation],
            n_channels=partial(n_channels_of, layers[0]),
            is_first=depth == 0,
            is_last=depth == len(rows) - 1,
            n_next=sizes[depth + 1],
        )
        for depth, (layers, (components, kinds)) in enumerate(zip(rows, parts, strict=True))
    ]


def _numbered(layers: Sequence[ModularLayer]) -> list[str]:
    """Returns the names of the components of all layers, with the layer's number if several."""
    if len(layers) == 1:
        return list(layers[0].names)
    return [f"{name} {number}" for number, layer in enumerate(layers) for name in layer.names]


def _check_between(network: MultiTaskNetwork) -> None:
    """Raises where statistics of a batch would be those of all streams together."""
    places = [i for i, layer in enumerate(network.layers) if isinstance(layer, ModularLayer)]
    for layer in network.layers[places[0] : places[-1]]:
        parts = [] if isinstance(layer, ModularLayer) else layer.modules()
        for part in parts:
            if isinstance(part, _STATISTICS):
                raise ValueError(
                    "Plain layers between columns should treat each example for itself, since "
                    "streams lie one after another in the batch. "
                    f"Found {type(part).__name__}, which takes statistics of the batch."
                )
