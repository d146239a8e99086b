"""The experiment's own network, taken apart so that a structure can put it together anew."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..._checks import described
from ...allocation import Allocation, SharedBottom
from ...modules import ModularLayer, MultiTaskNetwork
from .._methods import Allocate

Build = Callable[[Allocate, Mapping[str, int]], nn.Module]


@dataclass(frozen=True)
class Blueprint:
    """A network whose modular layers have no allocation of the method's yet.

    Attributes:
        network: The network, with a shared bottom where an allocation is to be.
        facts: What it told of each modular layer, by the allocation that stands there.
    """

    network: MultiTaskNetwork
    facts: Mapping[Allocation, Mapping[str, Any]]

    @property
    def layers(self) -> list[nn.Module]:
        return list(self.network.layers)

    def allocated(self, layer: ModularLayer, allocate: Allocate, n: int, **more: Any) -> Allocation:
        """Returns the method's allocation of ``n`` components for the place of ``layer``."""
        return allocate(n, **{**self.facts[layer.allocation], **more})


def drawn_up(build: Build, outputs: Mapping[str, int]) -> Blueprint:
    """Returns the experiment's network, made anew."""
    facts: dict[Allocation, Mapping[str, Any]] = {}

    def allocate(n_components: int, **offered: Any) -> Allocation:
        place = SharedBottom(len(outputs), n_components)
        facts[place] = offered
        return place

    return Blueprint(in_a_row(build(allocate, outputs)), facts)


def in_a_row(network: nn.Module) -> MultiTaskNetwork:
    """Returns a network whose modular layers stand one after another; raises for any other."""
    if not isinstance(network, MultiTaskNetwork):
        raise TypeError(
            "`network` of an experiment should build a MultiTaskNetwork where a method has a "
            f"`structure`. Found {described(network)}."
        )
    if any(layer not in set(network.layers) for layer in network.modular_layers):
        raise ValueError(
            "`network` should have its modular layers one after another where a method has a "
            "`structure`. Found one inside another module."
        )
    return network


def assembled(
    own: MultiTaskNetwork,
    layers: Sequence[nn.Module],
    *,
    stem: nn.Module | None = None,
    heads: Sequence[nn.Module] | None = None,
) -> MultiTaskNetwork:
    """Returns a network of these parts; those that are left out are those of ``own``."""
    modules = list(own.heads or []) if heads is None else heads  # type: ignore[arg-type]
    return MultiTaskNetwork(
        own.stem if stem is None else stem,
        layers,
        dict(zip(own.task_names, modules, strict=True)) if modules else None,
        dropout=own.dropout,
        task_names=own.task_names,
    )


def side_by_side(layers: Sequence[ModularLayer]) -> tuple[list[nn.Module], list[str]]:
    """Returns the components of several layers, one layer after another, and what they are."""
    components = [component for layer in layers for component in layer.components]
    return components, [kind for layer in layers for kind in layer.kinds]


def n_channels_of(layer: ModularLayer) -> int:
    """Returns how many channels or features come out of a layer.

    The last part of a component that knows says so, a linear layer, a convolution or a
    normalisation; no example has to be sent through. Components that do not know, such as
    pools, are left out, since all have outputs of one shape.
    """
    for component in layer.components:
        for part in reversed(list(component.modules())):
            for name in ("out_features", "out_channels", "num_channels", "num_features"):
                n_channels = getattr(part, name, None)
                if isinstance(n_channels, int):
                    return n_channels
    raise ValueError(
        "A modular layer should have a component with a linear layer or a convolution in it, which "
        f"tells how many channels come out. Found {', '.join(layer.names)}."
    )
