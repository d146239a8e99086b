"""An experiment's rows, each with the runs there are of it and with how much of them is shown."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from .._schema import HIGHER_IS_BETTER, MEASURES, RunHeader
from ..analysis import Relatedness, Summary, group_runs, relatedness, summarise, typical_run
from ..records import RunRecord
from ._spec import OwnSection, ReportRow, ReportSpec

MANY = 8  # methods; more share sentences
_FEW_TASKS = 8  # more get tables and figures of their own
_FEW_FAMILIES = 6  # more are not set beside each other


@dataclass(frozen=True, kw_only=True)
class Display:
    """How much is shown of some tasks and their allocation, decided once from a run's header."""

    is_binary: bool = True  # gates that are open or shut; else shares of components
    task_by_task: bool = False  # tables by task and all figures, where tasks are many
    relatedness: bool = False  # which tasks belong together
    equal_rows: bool = False  # whether families are looked for as equal rows; else as clusters
    families: bool = False  # tables by family
    families_compared: bool = False  # families beside each other
    kinds: bool = False  # whether kinds tell components of one layer apart
    usage: bool = False  # how much layers use each kind of component
    usage_by_family: bool = False

    @property
    def use(self) -> str:
        """What the share of components that tasks use is called."""
        return "Gates open" if self.is_binary else "Components used"


def display_of(header: RunHeader) -> Display:
    """Returns how much is shown of runs with this header."""
    many = len(header.task_names) > _FEW_TASKS
    n_families = len(set(header.families))
    few_families = n_families <= _FEW_FAMILIES
    kinds = _has_kinds(header)
    usage = kinds and len(header.layer_sizes) > 1
    return Display(
        is_binary=header.is_binary,
        task_by_task=many,
        relatedness=many or n_families > 0,
        equal_rows=header.is_binary and not many,
        families=n_families > 2,
        families_compared=few_families,
        kinds=kinds,
        usage=usage,
        usage_by_family=usage and many and n_families > 1 and few_families,
    )


def _has_kinds(header: RunHeader) -> bool:
    """Returns whether kinds tell some components of one layer apart."""
    kinds = iter(header.component_kinds)
    return any(len({next(kinds) for _ in range(size)}) > 1 for size in header.layer_sizes)


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """A row of the report with its runs, of which there may be none."""

    spec: ReportRow
    runs: list[RunRecord] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The method's label, with the condition where there is one."""
        return self.spec.name

    @cached_property
    def finished(self) -> list[RunRecord]:
        """The runs that reached their end."""
        return [run for run in self.runs if run.finished]

    @cached_property
    def display(self) -> Display:
        return display_of(self.runs[0].header) if self.runs else Display()

    @cached_property
    def summary(self) -> Summary:
        return summarise(self.runs)

    @cached_property
    def relatedness(self) -> Relatedness:
        """Which tasks belong together in the finished runs, of which there should be some."""
        return relatedness(self.finished)

    @cached_property
    def typical(self) -> RunRecord | None:
        """The run with the median result, if any has one."""
        return typical_run(self.runs)


@dataclass(frozen=True, kw_only=True)
class Section:
    """One experiment of the report."""

    spec: ReportSpec
    rows: tuple[ResultRow, ...]

    @cached_property
    def own(self) -> OwnSection | None:
        """What is shown in place of everything else, where the experiment has its own way."""
        return None if self.spec.own is None else self.spec.own(self.records)

    @property
    def records(self) -> list[RunRecord]:
        return [record for row in self.rows for record in row.runs]

    @property
    def ran(self) -> list[ResultRow]:
        return [row for row in self.rows if row.runs]

    @property
    def learnt(self) -> list[ResultRow]:
        """The rows whose learnt allocation is shown; each has a run that reached its end."""
        shown = self.spec.shows_allocation
        return [row for row in self.rows if shown and row.spec.learnt and row.finished]

    @property
    def related(self) -> list[ResultRow]:
        """The learnt rows of which it is shown which tasks belong together."""
        return [row for row in self.learnt if row.display.relatedness]

    @property
    def conditions(self) -> list[str]:
        return list(dict.fromkeys(row.spec.condition for row in self.rows))

    @property
    def measure_label(self) -> str:
        """The number's label with its unit; of a loss, with the rounds it is the mean over."""
        label = self.spec.measure_label
        losses = [record for record in self.records if record.header.measure == "loss"]
        # A run may be shorter than the part at its end that is asked for.
        n = [min(record.header.n_last_rounds, record.outcome.rounds) for record in losses]
        if not n:
            return label
        rounds = f"{max(n)}" if min(n) == max(n) else f"{min(n)} to {max(n)}"
        return f"{label} over the last {rounds} rounds"

    @property
    def _with_curves(self) -> list[RunRecord]:
        return [run for row in self.rows for run in row.finished if len(run.rounds)]

    @cached_property
    def window(self) -> int:
        """The rounds that losses are smoothed over: at most a tenth of the shortest run."""
        tenths = [int(run.rounds[-1]) // 10 for run in self._with_curves]
        return max(1, min([self.spec.window, *tenths]))

    @property
    def smoothing(self) -> str:
        """Over how many rounds losses are means: the window, or more where less was kept."""
        window, runs = self.window, self._with_curves
        lengths = {max(window, int(np.median(np.diff(run.rounds, prepend=0)))) for run in runs}
        least, most = min(lengths, default=window), max(lengths, default=window)
        if most == 1:
            return "not smoothed"
        if most == window:
            return f"smoothed over {window} rounds"
        rounds = f"{least:,} to {most:,}" if least < most else f"{most:,}"
        return f"each point the mean over {rounds} rounds"

    @property
    def higher_is_better(self) -> bool:
        if self.spec.shows_error:
            return False
        return any(record.header.measure in HIGHER_IS_BETTER for record in self.records)

    @property
    def is_of_training(self) -> bool:
        """Whether losses of training are reported, and not results on test splits."""
        return any(record.header.measure == "loss" for record in self.records)


def section(records: Sequence[RunRecord], spec: ReportSpec) -> Section:
    """Returns the rows of ``spec`` with their runs, and then the runs that it does not name.

    A condition that all rows have is said once, in the title.
    """
    groups = {
        key[1:]: runs for key, runs in group_runs(records).items() if key[0] == spec.experiment
    }
    rows = [*spec.rows, *_others(groups, spec)]
    found = [ResultRow(spec=row, runs=groups.get((row.condition, row.method), [])) for row in rows]
    conditions = {row.condition for row in rows}
    if len(conditions) == 1 and (condition := conditions.pop()):
        found = [replace(row, spec=replace(row.spec, condition="")) for row in found]
        spec = replace(spec, title=f"{spec.title}, {condition}")
    return Section(spec=spec, rows=tuple(found))


def _others(groups: dict[tuple[str, str], list[RunRecord]], spec: ReportSpec) -> list[ReportRow]:
    """Returns rows for the conditions and methods that ``spec`` does not name together."""
    declared = {(row.condition, row.method) for row in spec.rows}
    labels = {row.method: row for row in spec.rows}
    return [
        replace(labels[method], condition=condition, paper=None)
        if method in labels
        else ReportRow(method=method, label=method, condition=condition, learnt=_is_learnt(runs))
        for (condition, method), runs in groups.items()
        if (condition, method) not in declared
    ]


def sections(records: Sequence[RunRecord], specs: Sequence[ReportSpec]) -> list[Section]:
    """Returns a section for each spec, and for each experiment that has none."""
    declared = {spec.experiment for spec in specs}
    names = dict.fromkeys(record.header.experiment for record in records)
    others = [_spec_from(name, records) for name in names if name not in declared]
    return [section(records, spec) for spec in [*specs, *others]]


def _spec_from(name: str, records: Sequence[RunRecord]) -> ReportSpec:
    """Returns what can be said of an experiment from its records alone."""
    first = next(record for record in records if record.header.experiment == name)
    label, unit = MEASURES[first.header.measure]
    return ReportSpec(
        experiment=name,
        title=name,
        place="",
        rows=(),
        measure=label,
        unit=unit,
    )


def _is_learnt(records: Sequence[RunRecord]) -> bool:
    """Returns whether some gate is neither surely open nor surely shut, or its share is a part."""
    gates = [record.outcome.probabilities for record in records]
    return any(((each > 0) & (each < 1)).any() for each in gates)
