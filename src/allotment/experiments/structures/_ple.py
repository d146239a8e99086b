"""Experts of each task and shared ones, with streams from level to level."""

from collections.abc import Mapping

from ...allocation import Allocation
from ...modules import ColumnLayer, ModularLayer, MultiTaskNetwork, difference
from .._methods import Allocate
from ._blueprint import Build, drawn_up
from ._columns import Place, with_columns


def ple(build: Build, allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Returns the network with a stream for each task and a shared one, for the allocation `PLE`.

    Tang et al. (2020), "Progressive Layered Extraction (PLE): A Novel Multi-Task Learning (MTL)
    Model for Personalized Recommendations". As published, each level has experts of each task and
    shared ones, an expert reads the stream of its task or the shared one, and a gate for each
    stream mixes what it may see. Ours: plain layers between are the same for all streams.

    Experts are the network's components. One of them is each task's own, and the rest is shared.
    Where a layer has no more than ``T``, the network is built again until there are, and all
    components are taken: four tasks and four components make four own and four shared ones. Where
    a layer has components of several architectures, tasks would differ in their experts; so the
    network is built ``T + 1`` times, and all components of one are a task's own, or shared.

    Args:
        build: Makes the experiment's own network.
        allocate: Makes the allocation of a layer.
        outputs: How many outputs each task has, by name.
    """
    n_tasks = len(outputs)
    plans = [drawn_up(build, outputs)]
    layers = plans[0].network.modular_layers
    are_alike = all(map(_are_alike, layers))
    least = min(len(layer.components) for layer in layers)
    plans += [drawn_up(build, outputs) for _ in range(n_tasks // least if are_alike else n_tasks)]

    def column(place: Place) -> ColumnLayer:
        n_components = len(place.components)
        sizes = {
            "n_own": 1 if are_alike else n_components // (n_tasks + 1),
            "n_streams": 0 if place.is_last else n_tasks + 1,
        }
        allocation = allocate(n_components, **{**place.facts, **sizes})
        return ColumnLayer(
            place.components,
            allocation,
            reads=None if place.is_first else _reads(allocation),
            n_inputs=n_tasks + 1,
            is_last=place.is_last,
            names=place.names,
            kinds=place.kinds,
        )

    return with_columns(plans, column)


def _reads(allocation: Allocation) -> list[int]:
    """Returns the stream that each expert reads, as the allocation says."""
    reads = getattr(allocation, "reads", None)
    if not isinstance(reads, list):
        raise TypeError(
            "`allocation` of a method with the structure `ple` should be a PLE. "
            f"Found {type(allocation).__name__}."
        )
    return reads


def _are_alike(layer: ModularLayer) -> bool:
    first, *others = layer.components
    return not any(difference(first, other) for other in others)
