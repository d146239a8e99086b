"""How cost grows, as Markdown: with tasks, components and runs, and over many devices."""

from dataclasses import dataclass
from pathlib import Path

from ..records import LargeRecord, LargeWay, read_large, read_scaling, read_speed
from ._benchmarks import scaling_block, speed_block
from ._table import NOTHING, Column, make_table, markdown_table

_UNMEASURED = "Not measured yet."
_BYTES = 4  # of a gradient: float32, whatever the precision of products
_LINKS = {"25 GB/s": 25e9, "400 GB/s": 400e9}  # a fast network card; links inside of a machine
_N_TASKS = (32, 1_000, 10_000)
_N_DEVICES = (1, 8, 32, 100)


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


def scale_blocks(folder: Path) -> dict[str, str]:
    """Returns the parts of the page about scale that are made from the records in ``folder``."""
    growth = [scaling_block(read_scaling(path)) for path in sorted(folder.glob("scaling/*.json"))]
    launched = [speed_block(read_speed(path)) for path in sorted(folder.glob("launchers/*.json"))]
    lightning = [speed_block(read_speed(path)) for path in sorted(folder.glob("lightning/*.json"))]
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
