"""What the runs show, in plain words read from the numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..analysis import Estimate, disjoint, late_change, n_decimals, paired_difference, summarise
from ..records import RunRecord

from ._expectation import Expectation, ExpectedRow
from ._provenance import are_as_declared, lengths
from ._relatedness_words import relatedness_words
from ._section import Section, has_many_tasks, section
from ._tables import interval_text
from ._usage import trend_words


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """A method's number in a comparison."""

    label: str
    value: Estimate
    unit: str
    bounds: tuple[float, float]  # of what the number can be
    runs: list[RunRecord]

    @property
    def text(self) -> str:
        """The mean with its interval, or with the remark that there is none."""
        unit = f" {self.unit}" if self.unit else ""
        if self.value.n == 1:
            return f"{self.value.mean:.3g}{unit} (one run, no spread)"
        mean = f"{self.value.mean:.{n_decimals(self.value.half_width)}f}{unit}"
        return f"{mean} (90 % interval {interval_text(self.value, self.bounds)}, n={self.value.n})"


def words(records: Sequence[RunRecord], expectation: Expectation) -> list[str]:
    """Returns sentences on what was found: structure, order of the methods, runs that failed."""
    return section_words(section(records, expectation))


def section_words(part: Section) -> list[str]:
    """Returns the sentences of a section."""
    if not part.records:
        return ["Not run yet."]
    said = [_structure(part, row, runs) for row, runs in part.rows if row.learnt and runs]
    for condition in part.conditions:
        said += _comparison(part, condition)
    said += [_other_length(part, row, runs) for row, runs in part.rows]
    said += relatedness_words(part) + trend_words(part)
    said += [_failures(row, runs) for row, runs in part.rows]
    missing = [row.name for row, runs in part.rows if not runs]
    said.append(f"Not run: {', '.join(missing)}." if missing else "")
    return [sentence for sentence in said if sentence]


def _structure(part: Section, row: ExpectedRow, runs: list[RunRecord]) -> str:
    """Returns in how many runs the structure was found; empty where none is known."""
    found = summarise(runs)
    if found.n_recovered is None:
        return ""
    n, structure = found.n_runs - found.n_failed, part.expectation.structure
    if has_many_tasks(runs[0]):
        return ""  # much to ask; what is asked of many tasks comes with their relatedness
    if found.n_recovered:
        return f"{row.name} found {structure} in {found.n_recovered} of {_runs(n)}."
    return f"{row.name} did not find {structure} in any of {_runs(n)}."


def _comparison(part: Section, condition: str) -> list[str]:
    """Returns how the methods under one condition rank, the best first, each beside the next."""
    entries = _ranked(part, condition)
    where = f"At {condition}, " if condition else ""
    ends, order = ("reaches", "above") if part.higher_is_better else ("ends at", "below")
    if not entries:
        return []
    best = entries[0]
    if len(entries) == 1:
        return [f"{where}{best.label} {ends} {best.text}."]
    second = entries[1]
    said = [
        f"{where}{best.label} {ends} {best.text}, {order} {second.label} with {second.text}; "
        f"{_verdict(best, second)}."
    ]
    for before, entry in pairwise(entries[1:]):
        said.append(f"Then comes {entry.label} with {entry.text}; {_verdict(before, entry)}.")
    return said


def _ranked(part: Section, condition: str) -> list[_Entry]:
    entries = [
        _Entry(
            label=row.label,
            value=value,
            unit=part.expectation.unit,
            bounds=part.expectation.bounds,
            runs=runs,
        )
        for row, runs in part.rows
        if row.condition == condition
        and (value := part.expectation.shown(summarise(runs).measure)).n
    ]
    return sorted(entries, key=lambda entry: entry.value.mean, reverse=part.higher_is_better)


def _verdict(a: _Entry, b: _Entry) -> str:
    if min(a.value.n, b.value.n) < 2:
        return "without a spread on both sides this decides nothing"
    if disjoint(a.value, b.value):
        return "the two intervals are disjoint"
    low, high = paired_difference(a.runs, b.runs).interval
    if low > 0 or high < 0:  # the same data for both leaves less to chance; NaN is neither
        return "the two intervals overlap, but that of the differences seed by seed leaves out 0"
    return "the two intervals overlap, so these runs do not settle the order"


def _other_length(part: Section, row: ExpectedRow, runs: list[RunRecord]) -> str:
    """Returns how the error of runs of other lengths than declared still changed, or nothing."""
    finished = [run for run in runs if run.finished]  # others are told of by themselves
    declared, change = part.expectation.rounds, late_change(finished).scaled(100)
    if are_as_declared(finished, declared) or not change.n:
        return ""
    n_digits, spread = 2, "one run, no spread"
    if change.n > 1:
        (low, high), n_digits = change.interval, n_decimals(change.half_width)
        spread = f"90 % interval {low:+z.{n_digits}f} to {high:+z.{n_digits}f}, n={change.n}"
    return (
        f"{row.name} has {lengths(finished)} rounds in place of {declared:,}; from the third "
        f"quarter of them to the last the validation error, mean over the looks in each, changed "
        f"by {change.mean:+z.{n_digits}f} percentage points ({spread})."
    )


def _failures(row: ExpectedRow, runs: list[RunRecord]) -> str:
    found = summarise(runs)
    parts = [
        f"{n} of {_runs(found.n_runs)} {what}"
        for n, what in (
            (found.n_failed, "failed and left out of the mean"),
            (found.n_collapsed, "collapsed on some task"),
        )
        if n
    ]
    return f"{row.name}: {', '.join(parts)}." if parts else ""


def _runs(n: int) -> str:
    return f"{n} run" if n == 1 else f"{n} runs"
