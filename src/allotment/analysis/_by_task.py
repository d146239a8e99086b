"""How well each task, and each known family of tasks, does in several runs."""

from collections.abc import Sequence

import numpy as np

from allotment._progress import Floats
from allotment.records import RunRecord

from ._estimate import Estimate, estimate
from ._families import family_names


def accuracy_by_task(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns the test accuracy of each task by name, over the runs that reached their end.

    Empty where no run has test accuracies; of no run for a task that has none.
    """
    accuracies = _accuracies(records)
    if not len(accuracies):
        return {}
    return dict(zip(records[0].header.task_names, map(estimate, accuracies.T), strict=True))


def accuracy_by_family(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns the mean test accuracy over the tasks of each family, over runs; see above.

    Empty where the records name no families, too.
    """
    accuracies = _accuracies(records)
    if not len(accuracies) or not records[0].header.families:
        return {}
    families = records[0].header.families
    member = np.array(families)
    return {
        name: estimate(accuracies[:, member == name].mean(axis=1))
        for name in family_names(families)
    }


def _accuracies(records: Sequence[RunRecord]) -> Floats:
    """Returns the test accuracies of the runs that have them, shape ``[R, T]``."""
    tests = [record.outcome.test for record in records if record.finished]
    known = [test.accuracies for test in tests if test is not None and test.accuracies is not None]
    return np.stack(known) if known else np.empty((0, 0))
