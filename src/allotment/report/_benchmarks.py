"""What the benchmarks measured, as Markdown: speed beside a plain loop, and how a step grows."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from ..records import ScalingRecord, SpeedRecord, Timing, read_speed
from ._table import NOTHING, Column, Table, make_table, markdown_table

_UNMEASURED = "Not measured yet."


def timing_table(record: SpeedRecord) -> Table:
    """Returns the timings of a record with medians and, in brackets, the least and the most."""

    def milliseconds(timing: Timing) -> str:
        return _spread(timing.milliseconds, 2 if median(timing.milliseconds) >= 0.1 else 4)

    def faster(timing: Timing) -> str:
        return NOTHING if timing is record.timings[0] else _spread(record.ratios(timing), 1)

    def memory(timing: Timing) -> str:
        return NOTHING if timing.peak_gibibytes is None else f"{timing.peak_gibibytes:.1f} GiB"

    columns: list[Column[Timing]] = [
        Column("Training", lambda timing: timing.label, kind="name"),
        Column("Precision", lambda timing: timing.precision),
        Column("ms per run and task batch", milliseconds),
        Column("Times faster", faster),
        Column("Memory", memory),
        Column("Warm-up", lambda timing: f"{timing.warm_up_seconds:.1f} s"),
    ]
    return make_table(columns, record.timings)


def floor_lines(record: SpeedRecord) -> list[str]:
    """Returns for each precision what a step of one run would take at least, in a sentence."""
    return [
        f"Floor in {floor.precision}: {floor.gigaflops:.3g} GFLOP at "
        f"{floor.gigaflops_per_second / 1000:.3g} TFLOP/s are {floor.arithmetic:.2g} ms, and "
        f"{1000 * floor.gigabytes:.3g} MB at {floor.gigabytes_per_second / 1000:.3g} TB/s are "
        f"{floor.memory:.2g} ms."
        for floor in record.floors
    ]


def speed_table(folder: Path) -> str:
    """Returns the records of the benchmarks in ``folder``, in name order, as Markdown."""
    blocks = [speed_block(read_speed(path)) for path in sorted(folder.glob("*.json"))]
    return "\n\n".join(blocks) or _UNMEASURED


def speed_summary(folder: Path) -> str:
    """Returns how many times faster training is, by network and device, as one Markdown table."""
    found: dict[tuple[str, str], SpeedRecord] = {}
    for record in [read_speed(path) for path in sorted(folder.glob("*.json"))]:
        found.setdefault((record.benchmark, record.environment.device), record)

    def most(record: SpeedRecord) -> int:
        return max(way.n_runs for way in record.timings)

    columns: list[Column[SpeedRecord]] = [
        Column("Network", lambda record: record.benchmark, kind="name"),
        Column("Device", lambda record: record.environment.device, kind="name"),
        Column("Plain loop, ms", lambda record: _short(record.timings[0])),
        Column("One run", lambda record: _times(record, 1)),
        Column("Runs together", lambda r: _times(r, most(r)) if most(r) > 1 else NOTHING),
    ]
    return markdown_table(make_table(columns, found.values())) if found else _UNMEASURED


def _times(record: SpeedRecord, n_runs: int) -> str:
    """Returns how many times faster the first way is that trains so many runs, steps alike."""
    ways = [way for way in record.timings[1:] if way.n_runs == n_runs and not way.is_joint]
    if not ways:
        return NOTHING
    together = f" with {n_runs} runs" if n_runs > 1 else ""
    faster = f"{median(record.ratios(ways[0])):.3g} times as fast{together}"
    is_other = ways[0].precision != record.timings[0].precision
    return f"{faster} ({ways[0].precision})" if is_other else faster


def _short(timing: Timing) -> str:
    return f"{median(timing.milliseconds):.3g} ({timing.precision})"


def speed_block(record: SpeedRecord) -> str:
    found = record.environment
    threads = f"{found.n_threads} thread{'s' * (found.n_threads != 1)}"
    lines = [
        f"**{record.benchmark}**: `{record.command}`",
        f"Machine: {record.processor}, {threads}; device: {found.device}",
        f"Commit: {found.short_commit} (torch {found.torch}, Python {found.python})",
    ]
    blocks = ["  \n".join(lines), markdown_table(timing_table(record))]
    if any(timing.is_joint for timing in record.timings):
        blocks.append(
            "A joint step is one optimizer step on a batch of every task; its time is divided by "
            "the number of tasks."
        )
    blocks += floor_lines(record)
    return "\n\n".join(blocks)


def scaling_block(record: ScalingRecord) -> str:
    """Returns a row for each thing that was varied, and how far."""
    sizes: dict[str, list[str]] = {}
    memory: dict[str, list[str]] = {}
    for row in record.rows:
        sizes.setdefault(row.varied, []).append(f"{row.milliseconds:.3g} ({row.number:,})")
        if row.mebibytes is not None:
            memory.setdefault(row.varied, []).append(f"{row.mebibytes:,.0f} ({row.number:,})")
    found = record.environment
    lines = [
        f"**How a step grows**: `{record.command}`, {record.description}",
        f"Machine: {record.processor}; device: {found.device}; commit: {found.short_commit}",
    ]
    columns: list[Column[str]] = [
        Column("Varied", str, kind="name"),
        Column(
            "ms of a step of all runs (at this number)",
            lambda varied: ", ".join(sizes[varied]),
            kind="text",
        ),
    ]
    if memory:
        columns.append(Column("MiB", lambda varied: ", ".join(memory[varied]), kind="text"))
    return "  \n".join(lines) + "\n\n" + markdown_table(make_table(columns, sizes))


def _spread(values: Sequence[float], digits: int) -> str:
    low, middle, high = (f"{v:.{digits}f}" for v in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"
