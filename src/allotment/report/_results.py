"""The results of an experiment: the paper's value beside ours, seed by seed, and by task."""

from collections.abc import Callable, Sequence
from itertools import chain, combinations

from ..analysis import (
    Estimate,
    PairedDifference,
    accuracy_by_checkpoint,
    accuracy_by_family,
    accuracy_by_group,
    accuracy_by_task,
    distinct_by_family,
    embeddings,
    family_names,
    loss_by_task,
    n_decimals,
    n_suites,
    paired_difference,
)
from ..records import RunRecord
from ._section import ResultRow, Section, section
from ._spec import ReportRow, ReportSpec
from ._table import EVERYWHERE, NOTHING, Column, Place, Table, interval_text, make_table, p_text

_ON_THE_PAGE = frozenset({Place.PAGE})


def result_table(records: Sequence[RunRecord], spec: ReportSpec) -> Table:
    """Returns the table of an experiment: every declared row, run or not, and every other run."""
    return section_table(section(records, spec))


def section_table(part: Section, place: Place = Place.PAGE) -> Table:
    """Returns the table of a section with the columns that there is room for."""
    published = [
        ResultRow(spec=ReportRow(method="", label=label, paper=value, is_ours=False))
        for label, value in part.spec.elsewhere.items()
    ]
    return make_table(_columns(part), [*part.rows, *published], place=place)


def _columns(part: Section) -> list[Column[ResultRow]]:
    def value(row: ResultRow) -> Estimate:
        return part.spec.shown(row.summary.measure)

    def ours(row: ResultRow) -> str:
        if not row.runs:
            return "not run" if row.spec.is_ours else NOTHING
        return str(value(row)) if value(row).n else "every run failed"

    def validation(row: ResultRow) -> str:
        found = part.spec.shown(row.summary.validation)
        return str(found) if part.spec.shows_error and found.n else NOTHING

    def median(row: ResultRow) -> str:
        """Returns the median, which says more than the mean where a run may collapse."""
        if value(row).n < 2 or not _is_accuracy(row):
            return NOTHING
        return f"{value(row).median:.{n_decimals(value(row).half_width)}f}"

    def used(row: ResultRow) -> str:
        return f"{100 * row.summary.share_active.mean:.0f} %" if value(row).n else NOTHING

    def collapsed(row: ResultRow) -> str:
        return _of_all(row, row.summary.n_collapsed) if _is_accuracy(row) else NOTHING

    uses = dict.fromkeys(row.display.use for row in part.ran) or ["Gates open"]
    return [
        Column("Condition", lambda row: row.spec.condition or NOTHING, kind="name", optional=True),
        Column("Method", lambda row: row.spec.label, kind="name"),
        Column("Paper", lambda row: row.spec.paper or NOTHING, optional=True),
        Column(_our_heading(part), ours),
        Column(
            "90 % interval of the mean",
            lambda row: interval_text(value(row), part.spec.bounds),
            places=_ON_THE_PAGE,
        ),
        Column("Validation error, %", validation, optional=True, places=_ON_THE_PAGE),
        Column("Median", median, optional=True, places=_ON_THE_PAGE),
        Column(" or ".join([*uses][:1] + [use.lower() for use in [*uses][1:]]), used),
        *_structure_columns(part),
        Column("Failed", lambda row: _of_all(row, row.summary.n_failed), places=_ON_THE_PAGE),
        Column(
            "Collapsed",
            collapsed,
            optional=True,
            places=_ON_THE_PAGE,
            note="runs in which some task ended at no more than 1.5 times chance",
        ),
    ]


def _structure_columns(part: Section) -> list[Column[ResultRow]]:
    """Returns what is said of families: as equal rows, or as clusters where that is much to ask."""

    def count(row: ResultRow, n_found: int | None, *, equal_rows: bool) -> str:
        if not row.spec.learnt or n_found is None or row.display.equal_rows != equal_rows:
            return NOTHING
        return f"{n_found} of {len(row.finished)}"

    return [
        Column(
            "One row a family",
            lambda row: count(row, row.summary.n_uniform, equal_rows=True),
            optional=True,
            places=_ON_THE_PAGE,
            note="runs in which all tasks of a family use the same components, for every family",
        ),
        Column(
            f"Found {part.spec.structure}",
            lambda row: count(row, row.summary.n_recovered, equal_rows=True),
            optional=True,
        ),
        Column(
            "Found the families, as clusters",
            lambda row: count(row, row.summary.n_separated, equal_rows=False),
            optional=True,
        ),
        Column(
            "Families with one row",
            _uniform_families,
            kind="text",
            optional=True,
            places=EVERYWHERE - {Place.TERMINAL},
        ),
    ]


def _uniform_families(row: ResultRow) -> str:
    """Returns the families whose tasks share one row, and in how many of the runs."""
    families = row.finished[0].header.families if row.finished else ()
    if not all((families, row.spec.learnt, row.display.is_binary, row.display.task_by_task)):
        return NOTHING
    distinct = [distinct_by_family(embeddings(run), families) for run in row.finished]
    counts = [of_family.count(1) for of_family in zip(*distinct, strict=True)]
    named = zip(family_names(families), counts, strict=True)
    return ", ".join(f"{name} {n} of {len(row.finished)}" for name, n in named if n) or "none"


def _of_all(row: ResultRow, n: int) -> str:
    return f"{n} of {len(row.runs)}" if row.runs else NOTHING


def _is_accuracy(row: ResultRow) -> bool:
    return bool(row.runs) and row.runs[0].header.measure == "accuracy"


def _our_heading(part: Section) -> str:
    """Returns the heading of our numbers; "ours" where there are others beside them."""
    label = part.measure_label
    beside = any(row.spec.paper for row in part.rows) or part.spec.elsewhere
    return f"Ours: {label[:1].lower()}{label[1:]}" if beside else label


# Methods compared seed by seed.

Pair = tuple[ResultRow, ResultRow, PairedDifference]


def difference_table(part: Section) -> Table | None:
    """Returns the differences between methods that ran the same seeds, or None without any.

    Where the experiment has a baseline, each method is compared with it, and otherwise only the
    pairs that are asked for. Without one, where a method learns its allocation, only the pairs
    with such a method in them are shown.
    """
    found: list[Pair] = []
    for condition in part.conditions:
        rows = [row for row in part.ran if row.spec.condition == condition]
        for first, second in _pairs(rows, part.spec):
            found.append((first, second, paired_difference(first.runs, second.runs)))
    shown = [pair for pair in found if pair[2].n > 1]
    if not shown:
        return None
    return make_table(_difference_columns(part.spec), shown, "Methods compared seed by seed")


def _pairs(rows: list[ResultRow], spec: ReportSpec) -> list[tuple[ResultRow, ResultRow]]:
    if spec.baseline:
        by_name = {row.spec.method: row for row in rows}
        named = [(row.spec.method, spec.baseline) for row in rows] + list(spec.pairs)
        return [(by_name[a], by_name[b]) for a, b in named if a != b and {a, b} <= by_name.keys()]
    any_learnt = any(row.spec.learnt for row in rows)
    every = combinations(reversed(rows), 2)
    return [(a, b) for a, b in every if any_learnt in (a.spec.learnt, b.spec.learnt)]


def _difference_columns(spec: ReportSpec) -> list[Column[Pair]]:
    factor = spec.factor * (-1 if spec.shows_error else 1)

    def name(pair: Pair) -> str:
        first, second = pair[0].spec, pair[1].spec
        condition = f"{first.condition}: " if first.condition else ""
        return f"{condition}{first.label} less {second.label}"

    def digits(pair: Pair) -> int:
        return n_decimals(abs(pair[2].half_width * factor))

    def interval(pair: Pair) -> str:
        low, high = sorted(factor * end for end in pair[2].interval)
        if spec.unit == "%":  # of two shares, which differ by at most the whole
            low, high = max(low, -100.0), min(high, 100.0)
        return f"{low:+z.{digits(pair)}f} to {high:+z.{digits(pair)}f}"

    return [
        Column("Difference", name, kind="name"),
        Column("Mean", lambda pair: f"{factor * pair[2].mean:+z.{digits(pair)}f}"),
        Column("90 % interval", interval),
        Column("Paired t-test, p", lambda pair: p_text(pair[2].t_p_value)),
        Column("Wilcoxon, p", lambda pair: p_text(pair[2].wilcoxon_p_value)),
        Column("Seeds", lambda pair: str(pair[2].n)),
    ]


# How well each task does, and each family or group of them, the methods beside each other.


def by_family(part: Section) -> Table | None:
    """Returns the accuracy, or the error, by family, where tasks are many."""
    return _by_name(part, "Family", accuracy_by_family)


def by_group(part: Section) -> Table | None:
    """Returns the accuracy, or the error, of groups of tasks that the experiment tells apart."""
    return _by_name(part, "Group", lambda runs: accuracy_by_group(runs, part.spec.groups))


def by_checkpoint(part: Section) -> Table | None:
    """Returns the validation accuracy, or error, by the checkpoint that it is taken from."""
    label = "Validation error, %" if part.spec.shows_error else "Validation accuracy, %"
    return _by_name(part, "Checkpoint", accuracy_by_checkpoint, label)


def by_task(part: Section) -> Table | None:
    """Returns the accuracy, or the error, task by task, where tasks are many."""
    return _by_name(part, "Task", accuracy_by_task)


def by_task_of_mixed(part: Section) -> list[Table]:
    """Returns loss and accuracy task by task, where the test loss of all is what is reported."""
    ran = part.ran
    is_mixed = bool(ran) and ran[0].runs[0].header.measure == "test_loss"
    if not is_mixed or n_suites(part.records) > 1:
        return []
    losses = [(row.name, loss_by_task(row.runs)) for row in ran]
    accuracies = [
        (row.name, {name: each.scaled(100) for name, each in accuracy_by_task(row.runs).items()})
        for row in ran
    ]
    tables = [_task_table("Test loss", losses), _task_table("Test accuracy, %", accuracies)]
    return [table for table in tables if table is not None]


def _task_table(what: str, found: list[tuple[str, dict[str, Estimate]]]) -> Table | None:
    """Returns a row for each task that has this number, and a column for each method."""
    names = dict.fromkeys(name for _, values in found for name, each in values.items() if each.n)
    if not names:
        return None
    columns = [_estimates_column(label, values) for label, values in found if values]
    return make_table([Column("Task", str, kind="name"), *columns], names, f"{what}, by task")


def _by_name(
    part: Section,
    what: str,
    accuracies: Callable[[Sequence[RunRecord]], dict[str, Estimate]],
    label: str = "",
) -> Table | None:
    if not _has_accuracies_by_task(part):
        return None
    found = [(row.name, accuracies(row.runs)) for row in part.ran]
    columns = [_method_column(part, label, values) for label, values in found if values]
    names = dict.fromkeys(chain.from_iterable(values for _, values in found))
    if not names:
        return None
    first: Column[str] = Column(what, str, kind="name")
    return make_table([first, *columns], names, f"{label or part.measure_label}, by {what.lower()}")


def _has_accuracies_by_task(part: Section) -> bool:
    """Tells whether tasks classify, are many, and are the same in all runs."""
    is_shown = any(row.display.task_by_task and _is_accuracy(row) for row in part.ran[:1])
    return is_shown and n_suites(part.records) == 1


def _method_column(part: Section, label: str, found: dict[str, Estimate]) -> Column[str]:
    return _estimates_column(label, {name: part.spec.shown(value) for name, value in found.items()})


def _estimates_column(label: str, shown: dict[str, Estimate]) -> Column[str]:
    """Returns a column of numbers; the number of runs in its heading, where it is one."""
    runs = {value.runs_text for value in shown.values() if value.n}
    is_one = len(runs) == 1

    def cell(name: str) -> str:
        text = shown[name].value_text if is_one else str(shown[name])
        return text if shown[name].n else NOTHING

    return Column(f"{label} ({runs.pop()})" if is_one else label, cell)
