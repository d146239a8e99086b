"""How long training takes beside a plainly written loop, from the records of the benchmarks."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from allotment.records import Environment, RecordError, environment_from

from ._markdown import markdown_table
from ._tables import NOTHING, Table

_DAMAGE = (OSError, ValueError, TypeError, KeyError)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What one way of training took, segment by segment."""

    label: str
    n_runs: int  # trained together
    warm_up_seconds: float  # building, recording and the first rounds; in no segment
    milliseconds: tuple[float, ...]  # of one step of one run, for each segment


@dataclass(frozen=True, kw_only=True)
class SpeedRecord:
    """Ways of training measured in turns in one process, the reference first."""

    benchmark: str
    command: str
    processor: str
    environment: Environment
    timings: tuple[Timing, ...]

    def ratios(self, timing: Timing) -> list[float]:
        """Returns how many times less than the reference ``timing`` took in each segment."""
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
            _spread(timing.milliseconds, 2 if median(timing.milliseconds) >= 0.1 else 4),
            _spread(record.ratios(timing), 1) if place else NOTHING,
            f"{timing.warm_up_seconds:.1f} s",
        )
        for place, timing in enumerate(record.timings)
    ]
    head = ("Training", "ms per run and step", "Times less", "Warm-up")
    return Table(head=head, rows=tuple(rows))


def speed_table(folder: Path) -> str:
    """Returns the records of the benchmarks in ``folder``, in name order, as Markdown."""
    records = [read_speed(path) for path in sorted(folder.glob("*.json"))]
    return "\n\n".join(_block(record) for record in records) if records else "Not measured yet."


def _block(record: SpeedRecord) -> str:
    found = record.environment
    lines = [
        f"**{record.benchmark}**: `{record.command}`",
        f"Machine: {record.processor}, {found.n_threads} threads; device: {found.device}",
        f"Commit: {found.short_commit} (torch {found.torch}, Python {found.python})",
    ]
    return "  \n".join(lines) + "\n\n" + markdown_table(timing_table(record))


def _spread(values: Sequence[float], digits: int) -> str:
    low, middle, high = (f"{v:.{digits}f}" for v in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"
