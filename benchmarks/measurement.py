"""What the benchmarks have in common: taking turns, and the record of what was measured."""

import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from rich.console import Console
from rich.table import Table as RichTable

from allotment.experiments import device_name
from allotment.records import SpeedRecord, Timing, describe_environment
from allotment.report import timing_table
from benchmarks.contestants import Contestant


class Record(Protocol):
    """Anything that is kept as a file."""

    def to_json(self) -> str:
        """Returns the text of the file."""


def take_turns(
    contestants: Sequence[Contestant], seconds: float, n_segments: int, device: torch.device
) -> tuple[Timing, ...]:
    """Returns what each took, in segments of about so many seconds."""
    for contestant in contestants:
        contestant.warm_up(seconds, n_segments, device)
    for _ in range(n_segments):
        for contestant in contestants:
            contestant.run_segment(device)
    return tuple(contestant.timing() for contestant in contestants)


def speed_record(
    program: str, benchmark: str, timings: Sequence[Timing], device: str = "cpu"
) -> SpeedRecord:
    """Returns what is kept of a program that was started with this process's arguments."""
    return SpeedRecord(
        benchmark=benchmark,
        command=recorded_command(program, sys.argv[1:]),
        processor=processor_name(),
        environment=describe_environment(device_name(device)),
        timings=tuple(timings),
    )


def show(record: SpeedRecord) -> None:
    """Prints the table of a record."""
    table = timing_table(record)
    shown = RichTable(*table.head, box=None, pad_edge=False)
    for row in table.rows:
        shown.add_row(*row)
    Console().print(shown)


def write(record: Record, file: Path | None) -> None:
    """Writes a record, where a file was asked for."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(record.to_json(), encoding="utf-8")


def processor_name() -> str:
    """Returns what the processor calls itself."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def recorded_command(program: str, arguments: Sequence[str]) -> str:
    """Returns the command for the record, without the file it is written to."""
    kept = list(arguments)
    if "--json" in kept:
        place = kept.index("--json")
        del kept[place : place + 2]
    return shlex.join(["python", f"benchmarks/{program}", *kept])
