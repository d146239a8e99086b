"""Components of consecutive layers, connected by variables that are drawn."""

from collections.abc import Mapping

from ...modules import ColumnLayer, MultiTaskNetwork
from .._methods import Allocate
from ._blueprint import Build, drawn_up
from ._columns import Place, with_columns


def snr_trans(build: Build, allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Returns the network with a learnt linear map on each connection, for the allocation `SNR`.

    SNR-Trans of Ma et al. (2019), "SNR: Sub-Network Routing for Flexible Parameter Sharing in
    Multi-Task Learning". As published, each component reads the sum of the outputs before it, each
    times its map and its variable, and so does each task's head. Ours: maps start as the identity;
    for images they are 1x1 convolutions; plain layers between are the same for all components.

    How many channels a map has is read from the components. There are ``C * C`` maps between two
    layers of ``C`` components, and ``T * C`` behind the last one.

    Args:
        build: Makes the experiment's own network.
        allocate: Makes the allocation of a layer.
        outputs: How many outputs each task has, by name.
    """
    return _routed(build, allocate, outputs, has_maps=True)


def snr_aver(build: Build, allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Returns the network with a variable alone on each connection, for the allocation `SNR`.

    SNR-Aver of the same publication: as `snr_trans`, without the maps. Outputs are added up, each
    times its variable; they are not divided by the sum of variables.

    Args:
        build: Makes the experiment's own network.
        allocate: Makes the allocation of a layer.
        outputs: How many outputs each task has, by name.
    """
    return _routed(build, allocate, outputs, has_maps=False)


def _routed(
    build: Build, allocate: Allocate, outputs: Mapping[str, int], *, has_maps: bool
) -> MultiTaskNetwork:
    def column(place: Place) -> ColumnLayer:
        n_components = len(place.components)
        return ColumnLayer(
            place.components,
            allocate(n_components, **{**place.facts, "n_streams": place.n_next}),
            reads=None if place.is_first else range(n_components),
            n_inputs=n_components,
            is_last=place.is_last,
            map_channels=place.n_channels() if has_maps else None,
            names=place.names,
            kinds=place.kinds,
        )

    return with_columns([drawn_up(build, outputs)], column)
