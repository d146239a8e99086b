"""Runs that can be looked at task by task."""

from collections.abc import Sequence

from ..records import RunRecord


def n_suites(records: Sequence[RunRecord]) -> int:
    """Returns how many different suites of tasks the runs are of."""
    return len({(record.header.task_names, record.header.families) for record in records})


def check_one_suite(records: Sequence[RunRecord]) -> None:
    """Raises unless there is a run, and all runs are of the same tasks."""
    if n_suites(records) != 1:
        raise ValueError(
            "`records` should be finished runs of the same tasks. Found "
            f"{len(records)} finished runs of {n_suites(records)} suites of tasks."
        )
