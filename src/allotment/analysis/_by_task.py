"""How well each task, and each known family or group of tasks, does in several runs."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from .._schema import Floats
from ..records import RunRecord
from ._estimate import Estimate, estimate
from ._measure import check_one_suite


def accuracy_by_task(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns the test accuracy of each task by name, over the runs that reached their end.

    Empty where no run has test accuracies; of no run for a task that has none.
    """
    finished = [record for record in records if record.finished]
    names = finished[0].header.task_names if finished else ()
    return accuracy_by_group(finished, {name: [name] for name in names})


def loss_by_task(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns the test loss of each task by name, over the runs that reached their end.

    Empty where no run was tested.
    """
    finished = [record for record in records if record.finished and record.outcome.test is not None]
    if not finished:
        return {}
    check_one_suite(finished)
    losses = np.stack([r.outcome.test.losses for r in finished if r.outcome.test is not None])
    names = finished[0].header.task_names
    return {name: estimate(column) for name, column in zip(names, losses.T, strict=True)}


def accuracy_by_family(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns the mean test accuracy over the tasks of each family, over runs.

    Tasks without an accuracy do not count. Empty where no run has test accuracies, or where the
    records name no families.
    """
    finished = [record for record in records if record.finished]
    groups: dict[str, list[str]] = {}
    header = finished[0].header if finished else None
    for name, family in zip(header.task_names, header.families, strict=False) if header else ():
        groups.setdefault(family, []).append(name)
    return accuracy_by_group(finished, groups)


def accuracy_by_group(
    records: Sequence[RunRecord], groups: Mapping[str, Collection[str]]
) -> dict[str, Estimate]:
    """Returns the mean test accuracy over the tasks of each group, given by name, over runs.

    Tasks without an accuracy do not count. Empty where no run has test accuracies.
    """
    finished = [record for record in records if record.finished]
    accuracies = _accuracies(finished)
    if not len(accuracies):
        return {}
    names = finished[0].header.task_names
    for group, members in groups.items():
        if not members or not set(members) <= set(names):
            raise ValueError(
                f"Groups should name tasks of the records. Found `{group!r}: {list(members)}`, "
                f"where the tasks are {list(names)}."
            )
    return {
        group: estimate(map(_mean_of_known, accuracies[:, np.isin(names, list(members))]))
        for group, members in groups.items()
    }


def _accuracies(finished: Sequence[RunRecord]) -> Floats:
    """Returns the test accuracies of the runs that have them, shape ``[R, T]``."""
    if finished:
        check_one_suite(finished)
    tests = [record.outcome.test for record in finished]
    known = [test.accuracies for test in tests if test is not None and test.accuracies is not None]
    return np.stack(known) if known else np.empty((0, 0))


def _mean_of_known(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
