"""The pictures of a run, drawn from the arrays and names of its record."""

from collections.abc import Callable

from matplotlib.figure import Figure

from allotment.analysis import embeddings
from allotment.records import RunRecord
from allotment.report import (
    allocation_map,
    mds_map,
    probabilities_over_time,
    similarity_map,
    task_tree,
)


def allocation_of(record: RunRecord) -> Figure:
    header = record.header
    return allocation_map(
        embeddings(record),
        header.task_names,
        component_names=header.component_names,
        layer_sizes=header.layer_sizes,
        families=header.families,
    )


def similarity_of(record: RunRecord) -> Figure:
    return _drawn(similarity_map, record)


def tree_of(record: RunRecord) -> Figure:
    return _drawn(task_tree, record)


def mds_of(record: RunRecord) -> Figure:
    return _drawn(mds_map, record)


def gates_of(record: RunRecord, task: int = 0) -> Figure:
    return probabilities_over_time(
        record.snapshots.rounds,
        record.snapshots.probabilities[:, task],
        component_names=record.header.component_names,
        component_kinds=record.header.component_kinds,
        layer_sizes=record.header.layer_sizes,
    )


def _drawn(draw: Callable[..., Figure], record: RunRecord) -> Figure:
    header = record.header
    return draw(embeddings(record), header.task_names, families=header.families)
