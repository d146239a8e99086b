"""What budgets cost and bring, and what new tasks reach, as Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import fmean

from ..analysis import estimate
from ..records import BudgetRecord, BudgetRow, GrowthRecord, GrowthRow, read_budgets, read_growth
from ._table import NOTHING, Column, make_table, markdown_table

_UNMEASURED = "Not measured yet."
_WORDS = {"count": "gates", "flops": "FLOPs"}


def deployment_blocks(folder: Path) -> dict[str, str]:
    """Returns the parts of the page about deployment that are made from records in ``folder``."""
    budgets = [read_budgets(path) for path in sorted(folder.glob("budgets_*.json"))]
    merged = [read_budgets(path) for path in sorted(folder.glob("merged_*.json"))]
    growth = [read_growth(path) for path in sorted(folder.glob("growing_*.json"))]
    return {
        "budgets": _joined(_block(record, budget_table(record)) for record in budgets + merged),
        "trunk": _joined(_block(record, trunk_table(record)) for record in budgets),
        "growth": _joined(_block(record, growth_table(record)) for record in growth),
    }


def budget_table(record: BudgetRecord) -> str:
    """Returns what each budget reached, and what a task's network takes beside the full one."""
    columns: list[Column[BudgetRow]] = [
        Column("Network", lambda row: row.suite, kind="name"),
        Column("Budget", _budget, kind="text"),
        Column("Test score, %", lambda row: _percent(row.scores)),
        Column("Gates open", lambda row: f"{100 * fmean(row.shares_open):.0f} %"),
        Column("FLOPs of all", lambda row: f"{100 * fmean(row.flops) / row.full_flops:.0f} %"),
    ]
    for size in record.rows[0].milliseconds:
        columns += _times(
            size, "Times as fast", attrgetter("milliseconds"), attrgetter("full_milliseconds")
        )
    return markdown_table(make_table(columns, record.rows))


def trunk_table(record: BudgetRecord) -> str:
    """Returns what one network for all tasks takes, beside one for each."""
    columns: list[Column[BudgetRow]] = [
        Column("Network", lambda row: row.suite, kind="name"),
        Column("Budget", _budget, kind="text"),
        Column("FLOPs of the sum", _trunk_share),
    ]
    for size in record.rows[0].trunk_milliseconds:
        columns += _times(
            size,
            "Times as fast as each in turn",
            attrgetter("trunk_milliseconds"),
            attrgetter("sum_milliseconds"),
        )
    return markdown_table(make_table(columns, record.rows))


def growth_table(record: GrowthRecord) -> str:
    """Returns what a new task reached in each way, by its number of examples."""
    rows: dict[str, dict[int, GrowthRow]] = {}
    for row in record.rows:
        rows.setdefault(row.way, {})[row.n_examples] = row
    sizes = sorted({row.n_examples for row in record.rows})

    def column(n: int) -> Column[str]:
        return Column(f"{n:,} examples", lambda way: _percent(rows[way][n].scores))

    first = record.rows[0]
    heading = f"{first.suite}: {first.task}"
    columns = [Column(heading, lambda way: way, kind="name"), *map(column, sizes)]
    return markdown_table(make_table(columns, rows))


def _block(record: BudgetRecord | GrowthRecord, table: str) -> str:
    found = record.environment
    lines = [
        f"**{record.rows[0].suite}**: `{record.command}`, {record.description}",
        f"Machine: {record.processor}; commit: {found.short_commit} (torch {found.torch})",
    ]
    return "\n\n".join(["  \n".join(lines), table])


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(blocks) or _UNMEASURED


def _budget(row: BudgetRow) -> str:
    return "none" if row.budget == 1 else f"{row.budget:g} of {_WORDS[row.cost]}"


def _percent(values: Sequence[float]) -> str:
    return str(estimate(values).scaled(100)) if values else NOTHING


_Times = Mapping[str, Sequence[float]]  # by batch size: milliseconds, for each seed


def _times(
    size: str,
    heading: str,
    own: Callable[[BudgetRow], _Times],
    before: Callable[[BudgetRow], _Times],
) -> list[Column[BudgetRow]]:
    """Returns what a batch takes, and how many times as fast that is as something else."""
    return [
        Column(f"ms, batch {size}", lambda row: f"{fmean(own(row)[size]):.3g}"),
        Column(f"{heading}, batch {size}", lambda row: _ratio(before(row)[size], own(row)[size])),
    ]


def _trunk_share(row: BudgetRow) -> str:
    return f"{100 * sum(row.trunk_flops) / sum(row.sum_flops):.0f} %"


def _ratio(before: Sequence[float], after: Sequence[float]) -> str:
    """Returns how many times as fast, a mean over seeds."""
    return f"{fmean(a / b for a, b in zip(before, after, strict=True)):.2f}"
