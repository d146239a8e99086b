"""Methods compared seed by seed, as a table."""

from itertools import combinations

from ..analysis import n_decimals, paired_difference
from ..records import RunRecord

from ._expectation import ExpectedRow
from ._section import Section
from ._tables import NOTHING, Table

Row = tuple[ExpectedRow, list[RunRecord]]
Rows = list[Row]


def difference_table(part: Section) -> Table | None:
    """Returns the differences between methods that ran the same seeds, or None without any.

    Where the experiment has a baseline, each method is compared with it alone. Otherwise, where a
    method learns its allocation, only the pairs with such a method in them are shown.
    """
    pairs = []
    for condition in part.conditions:
        rows: Rows = [(row, runs) for row, runs in part.rows if row.condition == condition and runs]
        pairs += _pairs(rows, part.expectation.baseline)
    shown = [cells for pair in pairs if (cells := _cells(part, *pair)) is not None]
    if not shown:
        return None
    head = ("Difference", "Mean", "90 % interval", "Paired t-test, p", "Wilcoxon, p", "Seeds")
    return Table(head=head, rows=tuple(shown), caption="Methods compared seed by seed")


def _pairs(rows: Rows, baseline: str) -> list[tuple[Row, Row]]:
    if baseline:
        bases = [row for row in rows if row[0].method == baseline]
        return [(row, base) for base in bases for row in rows if row is not base]
    any_learnt = any(row.learnt for row, _ in rows)
    return [
        (first, second)
        for first, second in combinations(reversed(rows), 2)
        if first[0].learnt or second[0].learnt or not any_learnt
    ]


def _cells(part: Section, first: Row, second: Row) -> tuple[str, ...] | None:
    found = paired_difference(first[1], second[1])
    if found.n < 2:
        return None
    factor = part.expectation.factor * (-1 if part.expectation.shows_error else 1)
    digits = n_decimals(abs(found.half_width * factor))
    low, high = sorted(factor * end for end in found.interval)
    if part.expectation.unit == "%":  # of two shares, which differ by at most the whole
        low, high = max(low, -100.0), min(high, 100.0)
    condition = f"{first[0].condition}: " if first[0].condition else ""
    return (
        f"{condition}{first[0].label} less {second[0].label}",
        f"{factor * found.mean:+z.{digits}f}",
        f"{low:+z.{digits}f} to {high:+z.{digits}f}",
        _p_text(found.t_p_value),
        _p_text(found.wilcoxon_p_value),
        str(found.n),
    )


def _p_text(p: float) -> str:
    if p != p:
        return NOTHING
    return "below 0.001" if p < 0.001 else f"{p:.3f}"
