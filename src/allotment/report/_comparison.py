"""Many methods on several suites of tasks: a table for each suite, and one of their ranks."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from textwrap import fill

from .._schema import HIGHER_IS_BETTER
from ..analysis import (
    Estimate,
    Ranking,
    estimate,
    leaders,
    measure,
    n_decimals,
    paired_difference,
    ranked,
    score_by_task,
)
from ..records import RunRecord
from ._provenance import provenance_text
from ._section import ResultRow, Section, section
from ._spec import ReportSpec
from ._table import NOTHING, Column, Table, make_table, markdown_table, p_text

_ORIGIN = (
    "Written by `make docs` from the kept runs in `results/`; a change by hand would be lost. "
    "Every way of sharing is trained on each suite with the same components, data, order of "
    "batches and number of steps. Learning rates are chosen first, for each method in the same "
    "way: those declared, a third and three times of both, two runs each, with seeds that the "
    "runs of the tables do not have, by the result on validation examples; `results/rates/` "
    "holds what was tried. Tests are looked at once, at the end."
)
_COLUMNS = (
    "A result is the mean over runs with their standard deviation (sd); the column behind it is "
    "its difference to a baseline, seed by seed, with the 90 % interval. A run that went wrong "
    "moves both; the median run and the worst stand beside them. Parameters: of the "
    "whole network, and of the part that a task uses in evaluation, mean over tasks and runs, "
    "where it does not differ by example. FLOPs: floating-point operations of products and "
    "convolutions in an optimizer step, forward and backward. Time: of the program, divided by "
    "the runs in it."
)
_RANKING = (
    "Only suites count on which all methods are compared, or left out for a reason. "
    "Friedman's test asks whether all methods could be equally good, from their ranks on each "
    "suite, by the median run. Where its p-value is small, two methods differ at the 5 % level if "
    "their mean ranks are at least the critical difference (Nemenyi) apart."
)


@dataclass(frozen=True)
class _Entry:
    """A method of a suite: a row with its runs, or the reason why it is not there."""

    label: str
    row: ResultRow | None = None
    reason: str = ""

    @property
    def runs(self) -> list[RunRecord]:
        return [] if self.row is None else self.row.finished


def markdown_comparison(records: Sequence[RunRecord], specs: Sequence[ReportSpec]) -> str:
    """Returns the page of all suites: ranks first, and then a table for each."""
    parts = [section(records, spec) for spec in specs]
    head = [f"# Comparison\n\n{fill(_ORIGIN, 100)}\n\n{fill(_COLUMNS, 100)}\n"]
    return "\n".join([*head, _ranking_text(parts), *(_suite_text(part) for part in parts)])


def comparison_table(part: Section) -> Table:
    """Returns a suite's table: results and costs of every method, run or not, fit or not."""
    entries = [_Entry(row.spec.label, row) for row in part.rows]
    entries += [_Entry(label, reason=reason) for label, reason in part.spec.left_out.items()]
    return make_table(_columns(part), entries)


def _columns(part: Section) -> list[Column[_Entry]]:
    baseline = next((row for row in part.rows if row.spec.method == part.spec.baseline), None)
    label = baseline.spec.label if baseline else "the baseline"

    def result(entry: _Entry) -> str:
        if entry.row is None:
            return f"left out: {entry.reason}"
        if not entry.row.runs:
            return "not run"
        value = part.spec.shown(entry.row.summary.measure)
        return str(value) if value.n else "every run failed"

    def difference(entry: _Entry) -> str:
        if baseline is None or entry.row in (None, baseline) or not entry.runs:
            return NOTHING
        return _difference(entry.runs, baseline.finished, part.spec)

    def failed(entry: _Entry) -> str:
        if entry.row is None or not entry.row.runs:
            return NOTHING
        return f"{entry.row.summary.n_failed} of {len(entry.row.runs)}"

    return [
        Column("Method", lambda entry: entry.label, kind="name"),
        Column(part.measure_label, result),
        Column(f"Less {label}", difference, optional=True),
        Column("Median run (worst)", lambda entry: _median_and_worst(entry.runs, part.spec)),
        Column("Learning rate", lambda entry: _rates(entry.runs)),
        Column("Parameters", lambda entry: _whole(r.header.n_parameters for r in entry.runs)),
        Column("Used by a task", lambda entry: _whole(_used(r) for r in entry.runs)),
        Column("MFLOPs a step", lambda entry: _operations(entry.runs)),
        Column("Seconds a run", lambda entry: _seconds(entry.runs)),
        Column("Failed", failed),
    ]


def score_table(part: Section) -> Table | None:
    """Returns each task's own metric by method, where the mean over them is what is reported."""
    found = [(row, score_by_task(row.finished)) for row in part.ran]
    shown = [(row, scores) for row, scores in found if scores]
    if not shown:
        return None
    columns = [Column[_Scores]("Method", lambda pair: pair[0].spec.label, kind="name")]
    columns += [_score_column(name) for name in shown[0][1]]
    return make_table(columns, shown, "Test score, by task")


_Scores = tuple[ResultRow, dict[str, Estimate]]


def _score_column(task: str) -> Column[_Scores]:
    return Column(task, lambda pair: pair[1][task].value_text)


def _difference(runs: Sequence[RunRecord], others: Sequence[RunRecord], spec: ReportSpec) -> str:
    """Returns the mean difference seed by seed, with its interval."""
    found = paired_difference(runs, others)
    if found.n < 2:
        return NOTHING
    factor = spec.factor * (-1 if spec.shows_error else 1)
    low, high = sorted(factor * end for end in found.interval)
    digits = n_decimals(abs(found.half_width * factor))
    mean = f"{factor * found.mean:+z.{digits}f}"
    return f"{mean} ({low:+z.{digits}f} to {high:+z.{digits}f})"


def _median_and_worst(runs: Sequence[RunRecord], spec: ReportSpec) -> str:
    values = sorted(spec.shown(estimate([measure(run)])).mean for run in runs)
    if not values:
        return NOTHING
    is_higher = runs[0].header.measure in HIGHER_IS_BETTER and not spec.shows_error
    n, worst = len(values), values[0 if is_higher else -1]
    digits = n_decimals(values[3 * n // 4] - values[n // 4])  # by the middle half of the runs
    return f"{median(values):.{digits}f} ({worst:.{digits}f})"


def _rates(runs: Sequence[RunRecord]) -> str:
    """Returns the learning rates that runs had, which is one unless they were mixed."""
    how = [run.header.settings.get("training", {}).get("optimization", {}) for run in runs]
    rates = sorted({each["learning_rate"] for each in how if "learning_rate" in each})
    return " or ".join(f"{rate:.2g}" for rate in rates) or NOTHING


def _used(run: RunRecord) -> float:
    n_used = run.outcome.n_used
    return math.nan if n_used is None else float(n_used.mean())


def _whole(values: Iterable[float]) -> str:
    """Returns the mean of numbers that are known, without decimals."""
    found = estimate(value or math.nan for value in values)
    return f"{found.mean:,.0f}" if found.n else NOTHING


def _operations(runs: Sequence[RunRecord]) -> str:
    found = estimate(run.header.n_operations or math.nan for run in runs)
    return f"{found.mean / 1e6:,.3g}" if found.n else NOTHING


def _seconds(runs: Sequence[RunRecord]) -> str:
    found: Estimate = estimate(run.outcome.seconds / run.outcome.n_together for run in runs)
    return f"{found.mean:,.2g}" if found.n else NOTHING


def _suite_text(part: Section) -> str:
    """Returns a suite's part of the page."""
    not_run = f"Not run yet; the command is `allotment run {part.spec.experiment}`."
    scores = score_table(part)
    blocks = [
        f"## {part.spec.title}",
        part.spec.remark,
        provenance_text(part) if part.records else not_run,
        markdown_table(comparison_table(part)),
        *([f"{scores.caption}:", markdown_table(scores)] if scores else []),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _ranking_text(parts: Sequence[Section]) -> str:
    """Returns the ranks over all suites that were run, and what tests say of them."""
    found, missing = ranked(_runs_by_suite({part.spec.title: part for part in parts}))
    blocks = ["## Ranks over suites", fill(_RANKING, 100)]
    if found is None:
        blocks.append("Not run yet: no two methods have a result on one suite.")
    else:
        blocks += [_verdict(found), markdown_table(ranking_table(found))]
    if missing:
        blocks.append(f"Without a result on every suite, and so without a rank: {missing}.")
    return "\n\n".join(blocks) + "\n"


def _runs_by_suite(parts: Mapping[str, Section]) -> dict[str, dict[str, list[RunRecord]]]:
    """Returns the runs of each method on the suites that compare, or leave out, all methods."""
    methods = {
        n: {row.spec.label for row in p.rows} | set(p.spec.left_out) for n, p in parts.items()
    }
    every = set().union(*methods.values())
    return {
        name: {row.spec.label: row.finished for row in part.rows}
        for name, part in parts.items()
        if methods[name] >= every
    }


def ranking_summary(records: Sequence[RunRecord], specs: Mapping[str, ReportSpec]) -> str:
    """Returns which method ranks best over suites and which is first on each, in a paragraph.

    >>> from allotment.report import ranking_summary
    >>> ranking_summary([], {})
    'The comparison (`allotment run comparison --suite NAME`) is not run yet.'

    Args:
        records: Of all suites.
        specs: What tables show of each suite, by its name.
    """
    runs = _runs_by_suite({name: section(records, spec) for name, spec in specs.items()})
    found, _ = ranked(runs)
    if found is None:
        return "The comparison (`allotment run comparison --suite NAME`) is not run yet."
    first = min(range(len(found.methods)), key=found.mean_ranks.__getitem__)
    led: dict[str, list[str]] = {}
    for suite, method in leaders(runs).items():
        led.setdefault(method, []).append(suite)
    leading = "; ".join(f"{method} on {', '.join(suites)}" for method, suites in led.items())
    return (
        f"Of the {len(found.methods)} ways of sharing that ran on all {found.n_suites} suites, "
        f"each with the same search of learning rates, {found.methods[first]} has the best mean "
        f"rank, {found.mean_ranks[first]:.1f}. {_told_apart(found)} The best on each suite, of all "
        f"that fit it: {leading}."
    )


def ranking_table(found: Ranking) -> Table:
    """Returns the methods, the best mean rank first."""
    order = sorted(range(len(found.methods)), key=lambda place: found.mean_ranks[place])
    columns: list[Column[int]] = [
        Column("Method", lambda place: found.methods[place], kind="name"),
        Column("Mean rank", lambda place: f"{found.mean_ranks[place]:.2f}"),
        Column("Wins", lambda place: str(found.wins[place])),
        Column("Best and worst rank", lambda place: _ends(found, place)),
    ]
    return make_table(columns, order)


def _ends(found: Ranking, place: int) -> str:
    own = found.ranks[:, place]
    return f"{own.min():g} to {own.max():g}"


def _verdict(found: Ranking) -> str:
    n, k = found.n_suites, len(found.methods)
    said = f"{k} methods on {n} suite{'s' * (n > 1)}"
    if math.isnan(found.p_value):
        return f"{said}: too few for the test."
    return (
        f"{said}: Friedman's chi-square is {found.chi_square:.2f}, Iman and Davenport's F "
        f"{found.f_statistic:.2f}, p {p_text(found.p_value)}; the critical difference of mean "
        f"ranks is {found.critical_difference:.2f}. {_pairs_apart(found)}"
    )


def _n_apart(found: Ranking) -> int:
    """Returns how many pairs of methods are at least the critical difference apart."""
    ranks = sorted(found.mean_ranks)
    return sum(b - a >= found.critical_difference for a, b in combinations(ranks, 2))


def _told_apart(found: Ranking) -> str:
    n = _n_apart(found)
    pairs = f"{n} of {math.comb(len(found.methods), 2)} pairs" if n else "No two"
    return f"{pairs} differ significantly in mean rank (Nemenyi test at the 5 % level)."


def _pairs_apart(found: Ranking) -> str:
    ranks, n = sorted(found.mean_ranks), _n_apart(found)
    if not n:
        return f"No two are that far apart: the first and the last by {ranks[-1] - ranks[0]:.2f}."
    return f"{n} of {math.comb(len(ranks), 2)} pairs are that far apart."
