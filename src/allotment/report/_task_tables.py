"""How well each task does, and each family or group of them, the methods beside each other."""

from collections.abc import Callable, Sequence

from ..analysis import Estimate, accuracy_by_family, accuracy_by_group, accuracy_by_task, n_suites
from ..records import RunRecord

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
    columns = [
        _column(part, row.name, found) for row, runs in part.rows if (found := by_name(runs))
    ]
    names = dict.fromkeys(name for _, texts in columns for name in texts)
    if not names:
        return None
    return Table(
        head=(kind, *(label for label, _ in columns)),
        rows=tuple((name, *(texts[name] for _, texts in columns)) for name in names),
        caption=f"{part.measure_label}, by {kind.lower()}",
    )


def _column(part: Section, label: str, found: dict[str, Estimate]) -> tuple[str, dict[str, str]]:
    """Returns the head of a column and its texts; the number of runs once, where it is one."""
    shown = {name: part.expectation.shown(value) for name, value in found.items()}
    runs = {value.runs_text for value in shown.values() if value.n}
    is_one = len(runs) == 1
    texts = {
        name: (value.value_text if is_one else str(value)) if value.n else NOTHING
        for name, value in shown.items()
    }
    return f"{label} ({runs.pop()})" if is_one else label, texts
