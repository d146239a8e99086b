"""A random part of the channels for each task, after every layer."""

from collections.abc import Mapping

from torch import nn

from ...modules import ModularLayer, MultiTaskNetwork, TaskMask
from .._methods import Allocate
from ._blueprint import Build, assembled, in_a_row, n_channels_of


def task_routing(
    build: Build, allocate: Allocate, outputs: Mapping[str, int], *, share: float = 0.5
) -> MultiTaskNetwork:
    """Returns the network with a `TaskMask` after each modular layer.

    Strezoski, van Noord and Worring (2019), "Many Task Learning With Task Routing". As published,
    masks are binary, drawn once and never learnt; the network itself is shared, for which the
    method's allocation is a shared bottom with ``reduce="mean"``. Ours: a mask stands behind a
    modular layer, and not behind each convolution inside its components.

    What a layer gives as the outputs of a network without heads is not masked, since a task would
    lose outputs of its own. How many channels a layer has is read from its components.

    Args:
        build: Makes the experiment's own network.
        allocate: Makes the allocation of a layer.
        outputs: How many outputs each task has, by name.
        share: Of the channels that each task uses.
    """
    network = in_a_row(build(allocate, outputs))
    layers: list[nn.Module] = []
    for place, layer in enumerate(network.layers):
        layers.append(layer)
        if isinstance(layer, ModularLayer) and not _gives_outputs(network, place):
            layers.append(TaskMask(len(outputs), n_channels_of(layer), share=share))
    if len(layers) == len(network.layers):
        raise ValueError(
            "`network` should have features to mask where a method has the structure "
            "`task_routing`: heads, or more layers behind a modular one. "
            "Found a network whose modular layer gives the outputs."
        )
    return assembled(network, layers)


def _gives_outputs(network: MultiTaskNetwork, place: int) -> bool:
    """Tells whether the layer at a place gives the network's outputs: nothing is learnt behind."""
    behind = list(network.layers)[place + 1 :]
    return network.heads is None and not any(True for each in behind for _ in each.parameters())
