"""How well each task does, and each family of tasks, the methods beside each other."""

from collections.abc import Callable, Sequence

from allotment.analysis import Estimate, accuracy_by_family, accuracy_by_task, n_decimals
from allotment.records import RunRecord

from ._section import Section, has_many_tasks
from ._tables import NOTHING, Table


def by_family(part: Section) -> Table | None:
    """Returns the accuracy, or the error, by family, where tasks are many."""
    return _table(part, "Family", accuracy_by_family)


def by_task(part: Section) -> Table | None:
    """Returns the accuracy, or the error, task by task, where tasks are many."""
    return _table(part, "Task", accuracy_by_task)


def _table(
    part: Section, kind: str, by_name: Callable[[Sequence[RunRecord]], dict[str, Estimate]]
) -> Table | None:
    if not part.records or not has_many_tasks(part.records[0]):
        return None
    columns = [(row.name, found) for row, runs in part.rows if (found := by_name(runs))]
    names = dict.fromkeys(name for _, found in columns for name in found)
    rows = [
        (name, *(_text(part, found[name]) if name in found else NOTHING for _, found in columns))
        for name in names
    ]
    if not rows:
        return None
    return Table(
        head=(kind, *(label for label, _ in columns)),
        rows=tuple(rows),
        caption=(
            f"{part.measure_label}, by {kind.lower()}: the mean over runs and their standard "
            "deviation"
        ),
    )


def _text(part: Section, value: Estimate) -> str:
    shown = part.expectation.shown(value)
    if shown.n < 2:
        return f"{shown.mean:.3g}" if shown.n else NOTHING
    digits = n_decimals(shown.sd)
    return f"{shown.mean:.{digits}f} ± {shown.sd:.{digits}f}"
