"""A column of components for each task, stitched together after every layer."""

from collections.abc import Mapping

from ...modules import ColumnLayer, MultiTaskNetwork
from .._methods import Allocate
from ._blueprint import Build, drawn_up
from ._columns import Place, with_columns


def cross_stitch(build: Build, allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """Returns the network as a column for each task, with the allocation `CrossStitch`.

    Misra et al. (2016), "Cross-Stitch Networks for Multi-task Learning". As published, each task
    has a column, the input of each column's next layer is a learnt mixture of all columns, and so
    is the input of a task's head.

    Where every modular layer has a multiple of ``T`` components, they are divided among the tasks
    as in `NoSharing`. Else the network is built ``T`` times, and a column is the layer of one of
    them. The components of a column are averaged. Ours: columns have the stem and plain layers in
    common, and a batch is one task's, which passes all columns.

    Args:
        build: Makes the experiment's own network.
        allocate: Makes the allocation of a layer.
        outputs: How many outputs each task has, by name.
    """
    n_tasks = len(outputs)
    plans = [drawn_up(build, outputs)]
    if any(len(layer.components) % n_tasks for layer in plans[0].network.modular_layers):
        plans += [drawn_up(build, outputs) for _ in range(n_tasks - 1)]

    def column(place: Place) -> ColumnLayer:
        n_components = len(place.components)
        width = n_components // n_tasks
        return ColumnLayer(
            place.components,
            allocate(n_components, **place.facts),
            reads=None if place.is_first else [at // width for at in range(n_components)],
            n_inputs=n_tasks,
            is_last=place.is_last,
            names=place.names,
            kinds=place.kinds,
        )

    return with_columns(plans, column)
