"""How well each task does, and each family or group of them, the methods beside each other."""

from collections.abc import Callable, Sequence

from allotment.analysis import (
    Estimate,
    accuracy_by_family,
    accuracy_by_group,
    accuracy_by_task,
    n_suites,
)
from allotment.records import RunRecord

from ._section import Section, has_many_tasks
from ._tables import NOTHING, Table


def by_family(part: Section) -> Table | None:
    """Returns the accuracy, or the error, by family, where tasks are many."""
    return _table(part, "Family", accuracy_by_family)


def by_group(part: Section) -> Table | None:
    """Returns the accuracy, or the error, of groups of tasks that the experiment tells apart."""
    groups = part.expectation.groups
    return _table(part, "Group", lambda runs: accuracy_by_group(runs, groups)) if groups else None


def by_task(part: Section) -> Table | None:
    """Returns the accuracy, or the error, task by task, where tasks are many."""
    return _table(part, "Task", accuracy_by_task)


def _table(
    part: Section, kind: str, by_name: Callable[[Sequence[RunRecord]], dict[str, Estimate]]
) -> Table | None:
    if not part.records or not has_many_tasks(part.records[0]):
        return None
    if part.records[0].header.measure != "accuracy" or n_suites(part.records) > 1:
        return None
    columns = [(row.name, found) for row, runs in part.rows if (found := by_name(runs))]
    names = dict.fromkeys(name for _, found in columns for name in found)
    rows = [(name, *(_text(part, found[name]) for _, found in columns)) for name in names]
    if not rows:
        return None
    return Table(
        head=(kind, *(label for label, _ in columns)),
        rows=tuple(rows),
        caption=(f"{part.measure_label}, by {kind.lower()}"),
    )


def _text(part: Section, value: Estimate) -> str:
    return str(part.expectation.shown(value)) if value.n else NOTHING
