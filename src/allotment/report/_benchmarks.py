"""What the benchmarks measured, as Markdown: speed beside a plain loop, and how cost grows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ..records import (
    LargeRecord,
    LargeWay,
    ScalingRecord,
    SpeedRecord,
    Timing,
    read_large,
    read_profile,
    read_scaling,
    read_speed,
)
from ._profiles import profile_lines
from ._table import NOTHING, Column, Table, make_table, markdown_table

_UNMEASURED = "Not measured yet."
_BYTES = 4  # of a gradient: float32, whatever the precision of products
_LINKS = {"25 GB/s": 25e9, "400 GB/s": 400e9}  # a fast network card; links inside of a machine
_N_TASKS = (32, 1_000, 10_000)
_N_DEVICES = (1, 8, 32, 100)


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
    blocks = [_speed_block(read_speed(path)) for path in sorted(folder.glob("*.json"))]
    profiles = [read_profile(path) for path in sorted(folder.glob("profile/*.json"))]
    blocks += ["\n".join(profile_lines(record)) for record in profiles]
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


def _speed_block(record: SpeedRecord) -> str:
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


def _scaling_block(record: ScalingRecord) -> str:
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


def scale_blocks(folder: Path) -> dict[str, str]:
    """Returns the parts of the page about scale that are made from the records in ``folder``."""
    growth = [_scaling_block(read_scaling(path)) for path in sorted(folder.glob("scaling/*.json"))]
    launched = [_speed_block(read_speed(path)) for path in sorted(folder.glob("launchers/*.json"))]
    lightning = [_speed_block(read_speed(path)) for path in sorted(folder.glob("lightning/*.json"))]
    large = [read_large(path) for path in sorted(folder.glob("large/*.json"))]
    return {
        "growth": "\n\n".join(growth) or _UNMEASURED,
        "launchers": "\n\n".join(launched) or _UNMEASURED,
        "lightning": "\n\n".join(lightning) or _UNMEASURED,
        "large": "\n\n".join(map(_large_block, large)) or _UNMEASURED,
        "devices": _devices_block(large[0]) if large else _UNMEASURED,
    }


def large_table(record: LargeRecord) -> str:
    """Returns what each way of training a large network took."""

    def step(way: LargeWay) -> str:
        if way.error:
            return f"failed: {way.error}"
        return f"{way.milliseconds:.1f} ({way.fastest:.1f} to {way.slowest:.1f})"

    def tokens(way: LargeWay) -> str:
        return NOTHING if way.error else f"{1e3 * record.n_tokens / way.milliseconds:,.0f}"

    def of_floor(way: LargeWay) -> str:
        return NOTHING if way.error else f"{100 * record.floor / way.milliseconds:.0f} %"

    def losses(way: LargeWay) -> str:
        return NOTHING if way.error else f"{way.first_loss:.2f} to {way.last_loss:.2f}"

    columns: list[Column[LargeWay]] = [
        Column("Training", lambda way: way.name, kind="name"),
        Column("ms a step", step),
        Column("Tokens a second", tokens),
        Column("Memory", lambda way: f"{way.gibibytes:.1f} GiB" if way.gibibytes else NOTHING),
        Column("Of the floor", of_floor),
        Column("Loss, first and last round", losses),
    ]
    return markdown_table(make_table(columns, record.ways))


def _large_block(record: LargeRecord) -> str:
    found = record.environment
    lines = [
        f"`{record.command}`: {record.description}; {record.n_parameters:,} parameters",
        f"Device: {found.device}; commit: {found.short_commit} (torch {found.torch})",
    ]
    said = (
        f"The floor is a step's arithmetic at the rate of a large product: {record.floor:.1f} ms."
    )
    return "\n\n".join(["  \n".join(lines), large_table(record), said])


@dataclass(frozen=True)
class _Case:
    """So many tasks on so many devices, each with a batch of its own."""

    record: LargeRecord
    way: LargeWay
    n_tasks: int
    n_devices: int

    @property
    def n_parameters(self) -> int:
        return self.record.n_parameters + (self.n_tasks - self.record.n_tasks) * (
            self.record.n_per_task
        )

    def reduction(self, bytes_per_second: float) -> float:
        """Returns the milliseconds in which a ring sums up the gradients of all devices."""
        share = 2 * (self.n_devices - 1) / self.n_devices
        return 1e3 * share * _BYTES * self.n_parameters / bytes_per_second

    def tokens_per_second(self, bytes_per_second: float) -> float:
        step = self.way.milliseconds + self.reduction(bytes_per_second)
        return 1e3 * self.n_devices * self.record.n_tokens / step


def _devices_block(record: LargeRecord) -> str:
    """Returns what many devices would do, computed from what one of them did."""
    way = next((way for way in record.ways if "ddp" in way.name and not way.error), None)
    if way is None:
        return _UNMEASURED
    cases = [_Case(record, way, t, n) for t in _N_TASKS for n in _N_DEVICES]
    columns: list[Column[_Case]] = [
        Column("Tasks", lambda case: f"{case.n_tasks:,}", kind="name"),
        Column("Devices", lambda case: f"{case.n_devices:,}"),
        Column("Million parameters", lambda case: f"{case.n_parameters / 1e6:,.0f}"),
    ]
    for name, rate in _LINKS.items():
        columns += _link_columns(name, rate)
    return markdown_table(make_table(columns, cases))


def _link_columns(name: str, rate: float) -> list[Column[_Case]]:
    return [
        Column(f"ms to sum gradients at {name}", lambda case: f"{case.reduction(rate):,.0f}"),
        Column(
            f"Million tokens a second at {name}",
            lambda case: f"{case.tokens_per_second(rate) / 1e6:.2g}",
        ),
    ]


def _spread(values: Sequence[float], digits: int) -> str:
    low, middle, high = (f"{v:.{digits}f}" for v in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"
