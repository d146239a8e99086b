"""How long training takes beside a plainly written loop, from the records of the benchmarks."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ..records import Environment, RecordError, environment_from

from ._markdown import markdown_table
from ._scaling import scaling_text
from ._tables import NOTHING, Table

_UNMEASURED = "Not measured yet."
_DAMAGE = (OSError, ValueError, TypeError, KeyError)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What one way of training took, segment by segment."""

    label: str
    n_runs: int  # trained together
    warm_up_seconds: float  # building, recording and the first rounds; in no segment
    milliseconds: tuple[float, ...]  # of one step of one run, for each segment
    precision: str = "float32"  # of products
    peak_gibibytes: float | None = None  # of a GPU's memory, over what there was before


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What one step of one run needs at least, and the rates at which the device gives it."""

    precision: str
    gigaflops: float
    gigabytes: float
    gigaflops_per_second: float
    gigabytes_per_second: float

    @property
    def arithmetic(self) -> float:
        """Milliseconds of a step if only arithmetic took time."""
        return 1000 * self.gigaflops / self.gigaflops_per_second

    @property
    def memory(self) -> float:
        """Milliseconds of a step if only memory took time."""
        return 1000 * self.gigabytes / self.gigabytes_per_second


@dataclass(frozen=True, kw_only=True)
class SpeedRecord:
    """Ways of training measured in turns in one process, the reference first."""

    benchmark: str
    command: str
    processor: str
    environment: Environment
    timings: tuple[Timing, ...]
    floors: tuple[Floor, ...] = ()

    def ratios(self, timing: Timing) -> list[float]:
        """Returns how many times faster than the reference ``timing`` was in each segment."""
        pairs = zip(self.timings[0].milliseconds, timing.milliseconds, strict=True)
        return [reference / ours for reference, ours in pairs]

    def to_json(self) -> str:
        """Returns the text of the record's file."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"


def read_speed(path: Path) -> SpeedRecord:
    """Returns the record in a file that ``to_json`` gave the text of."""
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return SpeedRecord(
            benchmark=value["benchmark"],
            command=value["command"],
            processor=value["processor"],
            environment=environment_from(value["environment"]),
            timings=tuple(
                Timing(**timing | {"milliseconds": tuple(timing["milliseconds"])})
                for timing in value["timings"]
            ),
            floors=tuple(Floor(**floor) for floor in value.get("floors", ())),
        )
    except _DAMAGE as error:
        raise RecordError(
            f"A record of speed should be complete. Found `{path}`: {error}."
        ) from error


def timing_table(record: SpeedRecord) -> Table:
    """Returns the timings of a record with medians and, in brackets, the least and the most."""
    rows = [
        (
            timing.label,
            timing.precision,
            _spread(timing.milliseconds, 2 if median(timing.milliseconds) >= 0.1 else 4),
            _spread(record.ratios(timing), 1) if place else NOTHING,
            NOTHING if timing.peak_gibibytes is None else f"{timing.peak_gibibytes:.1f} GiB",
            f"{timing.warm_up_seconds:.1f} s",
        )
        for place, timing in enumerate(record.timings)
    ]
    head = (
        "Training",
        "Precision",
        "ms per run and task batch",
        "Times faster",
        "Memory",
        "Warm-up",
    )
    return Table(head=head, rows=tuple(rows))


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
    blocks = [_block(read_speed(path)) for path in sorted(folder.glob("*.json"))]
    blocks += [scaling_text(path) for path in sorted(folder.glob("scaling/*.json"))]
    return "\n\n".join(blocks) or _UNMEASURED


def speed_summary(folder: Path) -> str:
    """Returns what training took in each record in short, as one Markdown table."""
    rows: dict[tuple[str, ...], tuple[str, ...]] = {}
    for record in [read_speed(path) for path in sorted(folder.glob("*.json"))]:
        plain, *others = record.timings
        for timing in others:
            name = (record.benchmark, record.environment.device, timing.label)
            texts = (_short(timing), _short(plain), f"{median(record.ratios(timing)):.3g}")
            rows.setdefault((*name, timing.precision), (*name, *texts))  # the first that says it
    head = ("Network", "Device", "Training", "ms per task batch", "Plain loop", "Times faster")
    return markdown_table(Table(head=head, rows=tuple(rows.values()))) if rows else _UNMEASURED


def _short(timing: Timing) -> str:
    return f"{median(timing.milliseconds):.3g} ({timing.precision})"


def _block(record: SpeedRecord) -> str:
    found = record.environment
    lines = [
        f"**{record.benchmark}**: `{record.command}`",
        f"Machine: {record.processor}, {found.n_threads} threads; device: {found.device}",
        f"Commit: {found.short_commit} (torch {found.torch}, Python {found.python})",
    ]
    blocks = ["  \n".join(lines), markdown_table(timing_table(record))]
    if any("joint" in timing.label for timing in record.timings):
        blocks.append(
            "A joint step is one optimizer step on a batch of every task; its time is divided by "
            "the number of tasks."
        )
    blocks += floor_lines(record)
    return "\n\n".join(blocks)


def _spread(values: Sequence[float], digits: int) -> str:
    low, middle, high = (f"{v:.{digits}f}" for v in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"
