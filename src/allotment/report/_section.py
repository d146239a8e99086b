"""An experiment's rows, each with the runs there are of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..analysis import group_runs
from ..records import RunRecord

from ._expectation import Expectation, ExpectedRow

MANY_FAMILIES = 6  # more are not set beside each other
_MANY_TASKS = 8  # more get tables and figures of their own, even where no family is known


@dataclass(frozen=True, kw_only=True)
class Section:
    """One experiment of the report."""

    expectation: Expectation
    rows: tuple[tuple[ExpectedRow, list[RunRecord]], ...]  # no runs where it was not run

    @property
    def records(self) -> list[RunRecord]:
        """All runs of the experiment."""
        return [record for _, runs in self.rows for record in runs]

    @property
    def learnt(self) -> list[tuple[ExpectedRow, list[RunRecord]]]:
        """The rows whose learnt allocation is shown, with the runs that reached their end."""
        if not self.expectation.shows_allocation:
            return []
        finished = [(row, [run for run in runs if run.finished]) for row, runs in self.rows]
        return [(row, runs) for row, runs in finished if row.learnt and runs]

    @property
    def conditions(self) -> list[str]:
        """The conditions, in the order of the rows."""
        return list(dict.fromkeys(row.condition for row, _ in self.rows))

    @property
    def measure_label(self) -> str:
        """The number's label with its unit; of a loss, with the rounds it is the mean over."""
        label = self.expectation.measure_label
        losses = [record for record in self.records if record.header.measure == "loss"]
        # A run may be shorter than the stretch at its end that is asked for.
        n = [min(record.header.n_last_rounds, record.outcome.rounds) for record in losses]
        if not n:
            return label
        rounds = f"{max(n)}" if min(n) == max(n) else f"{min(n)} to {max(n)}"
        return f"{label} over the last {rounds} rounds"

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger number is the better one."""
        if self.expectation.shows_error:
            return False
        return any(record.header.measure == "accuracy" for record in self.records)


def section(records: Sequence[RunRecord], expectation: Expectation) -> Section:
    """Returns the rows of ``expectation`` with their runs, and then the runs nobody expected.

    A condition that all rows have is said once, in the title.
    """
    groups = {
        key[1:]: runs
        for key, runs in group_runs(records).items()
        if key[0] == expectation.experiment
    }
    expected = {(row.condition, row.method) for row in expectation.rows}
    labels = {row.method: row for row in expectation.rows}
    others = [
        replace(labels[method], condition=condition, paper=None)
        if method in labels
        else ExpectedRow(method=method, label=method, condition=condition, learnt=_moved(runs))
        for (condition, method), runs in groups.items()
        if (condition, method) not in expected
    ]
    rows = [
        (row, groups.get((row.condition, row.method), [])) for row in [*expectation.rows, *others]
    ]
    conditions = {row.condition for row, _ in rows}
    if len(conditions) == 1 and (condition := conditions.pop()):
        rows = [(replace(row, condition=""), runs) for row, runs in rows]
        expectation = replace(expectation, title=f"{expectation.title}, {condition}")
    return Section(expectation=expectation, rows=tuple(rows))


def sections(records: Sequence[RunRecord], expectations: Sequence[Expectation]) -> list[Section]:
    """Returns a section for each expectation, and for each experiment that has none."""
    expected = {expectation.experiment for expectation in expectations}
    names = dict.fromkeys(record.header.experiment for record in records)
    others = [_unexpected(name, records) for name in names if name not in expected]
    return [section(records, expectation) for expectation in [*expectations, *others]]


def _unexpected(name: str, records: Sequence[RunRecord]) -> Expectation:
    """Returns what can be said of an experiment from its records alone."""
    first = next(record for record in records if record.header.experiment == name)
    accuracy = first.header.measure == "accuracy"
    return Expectation(
        experiment=name,
        title=name,
        place="",
        rows=(),
        measure="Test accuracy" if accuracy else "Loss",
        unit="%" if accuracy else "",
    )


def has_many_tasks(record: RunRecord) -> bool:
    """Returns whether a run has more tasks than can be taken in at a glance."""
    return len(record.header.task_names) > _MANY_TASKS


def _moved(records: Sequence[RunRecord]) -> bool:
    """Returns whether some gate of the runs is neither surely open nor surely shut."""
    probabilities = [record.outcome.probabilities for record in records]
    return any(((gates > 0) & (gates < 1)).any() for gates in probabilities)
