"""How well each task does, and each family of tasks, the methods beside each other."""

from collections.abc import Callable, Sequence

from allotment.analysis import Estimate, accuracy_by_family, accuracy_by_task, n_decimals
from allotment.records import RunRecord

from ._section import Section, has_many_tasks
from ._tables import NOTHING, Table


def task_tables(part: Section) -> list[Table]:
    """Returns the accuracy, or the error, by family and by task, where tasks are many."""
    if not part.records or not has_many_tasks(part.records[0]):
        return []
    tables = [_table(part, "Family", accuracy_by_family), _table(part, "Task", accuracy_by_task)]
    return [table for table in tables if table.rows]


def _table(
    part: Section, kind: str, by_name: Callable[[Sequence[RunRecord]], dict[str, Estimate]]
) -> Table:
    columns = [(row.name, found) for row, runs in part.rows if (found := by_name(runs))]
    names = dict.fromkeys(name for _, found in columns for name in found)
    rows = [
        (name, *(_text(part, found[name]) if name in found else NOTHING for _, found in columns))
        for name in names
    ]
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
