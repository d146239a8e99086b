"""The same modules at every depth, in an order of each task's own."""

from collections.abc import Mapping

from torch import nn

from ...modules import TaskNetwork, as_network, difference
from .._methods import Allocate
from ._blueprint import Build


def soft_ordering(build: Build, allocate: Allocate, outputs: Mapping[str, int]) -> TaskNetwork:
    """Returns the network with one list of components for all layers that could have the same.

    Meyerson and Miikkulainen (2018), "Beyond Shared Hierarchies: Deep Multitask Learning through
    Soft Layer Ordering": each task mixes the same modules anew at each depth, by a softmax of its
    own for each depth (`SoftmaxMatrix`). As published, the modules are shared by all depths.

    Ours: layers share a list where their components have the same architectures, one for one.
    A layer that differs from all others, such as a first one with fewer channels, keeps its own;
    a network without two layers alike is left as it is.

    Args:
        build: Makes the experiment's own network.
        allocate: Makes the allocation of a layer.
        outputs: How many outputs each task has, by name.
    """
    network = as_network(build(allocate, outputs), list(outputs))
    kept: list[nn.ModuleList] = []
    for layer in network.modular_layers:
        like = [own for own in kept if not difference(own, layer.components)]
        if like:
            layer.components = nn.ModuleList(like[0])
        else:
            kept.append(layer.components)
    return network
