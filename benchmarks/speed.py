"""Measures training beside a plainly written loop, in one process.

Short segments of the plain loop (``reference.py``), of one run and of several runs together are
timed in turns, so that whatever else the machine does falls on all of them alike. Everything a step
costs is inside: drawing batches, clipping, the optimizer, the tracking of losses and gates.
Building, recording the step and the first rounds are timed apart, as the warm-up.
"""

import argparse
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table as RichTable

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment.data import DATASETS, DataError, data_folder, load
from allotment.experiments import EXPERIMENTS, Launch, cohorts, device_name
from allotment.records import describe_environment
from allotment.report import SpeedRecord, Timing, timing_table
from allotment.training import ROUNDS_PER_BLOCK, train
from benchmarks.reference import train_mnist, train_two_pairs

BENCHMARKS = ("two_pairs", "mnist")
METHOD = "gumbel"
N_WARM_UP = 3  # turns, of which the last tells how many make a segment
MOST_ROUNDS = 10_000_000  # of the plain loop, which goes on as long as it is asked


@dataclass
class Contestant:
    """A way of training, taken further turn by turn."""

    label: str
    n_runs: int
    turns: Iterator[Any]
    rounds_per_turn: int
    most_turns: int
    turns_per_segment: int = 1
    warm_up_seconds: float = 0.0
    milliseconds: list[float] = field(default_factory=list)  # of one step of one run

    def warm_up(self, seconds: float, n_segments: int) -> None:
        """Takes the first turns, and sets the length of a segment to about ``seconds``."""
        started = time.perf_counter()
        for _ in range(N_WARM_UP):
            last = time.perf_counter()
            next(self.turns)
        now = time.perf_counter()
        self.warm_up_seconds = now - started
        room = (self.most_turns - N_WARM_UP) // n_segments
        self.turns_per_segment = max(1, min(room, round(seconds / (now - last))))

    def run_segment(self, n_tasks: int, device: torch.device) -> None:
        """Takes a segment's turns and remembers how long a step of one run took."""
        started = time.perf_counter()
        for _ in range(self.turns_per_segment):
            next(self.turns)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - started
        n_steps = self.turns_per_segment * self.rounds_per_turn * n_tasks * self.n_runs
        self.milliseconds.append(1000 * seconds / n_steps)

    def timing(self) -> Timing:
        """Returns what was measured."""
        return Timing(
            label=self.label,
            n_runs=self.n_runs,
            warm_up_seconds=round(self.warm_up_seconds, 3),
            milliseconds=tuple(round(value, 5) for value in self.milliseconds),
        )


def reference(name: str, data: Path | None, device: torch.device) -> Contestant:
    """Returns the plain loop of a benchmark."""
    if name == "mnist":
        arrays = load("mnist", data)
        images, labels = (torch.from_numpy(arrays[part]) for part in ("x_train", "y_train"))
        loop = train_mnist(MOST_ROUNDS, images, labels, device)
    else:
        loop = train_two_pairs(MOST_ROUNDS, device)
    turns = (_rounds(loop, ROUNDS_PER_BLOCK) for _ in range(MOST_ROUNDS))
    return Contestant("plain loop, one run", 1, turns, ROUNDS_PER_BLOCK, MOST_ROUNDS)


def _rounds(loop: Iterator[torch.Tensor], n: int) -> float:
    """Takes ``n`` rounds of a plain loop and looks at their loss, as ours does once a block."""
    return float(torch.stack([next(loop) for _ in range(n)]).mean())


def ours(
    name: str, n_runs: int, data: Path | None, device: torch.device, *, compiled: bool = False
) -> Contestant:
    """Returns runs of a benchmark that train together in allotment's own loop."""
    experiment = EXPERIMENTS[name]
    training = replace(experiment.training, compile=compiled)
    experiment = replace(experiment, training=training)
    launch = Launch(
        experiment=experiment,
        methods=(experiment.method(METHOD),),
        out=Path(),  # nothing is written
        n_runs=n_runs,
        device=str(device),
        data_folder=data,
    )
    (cohort,) = cohorts(launch)
    turns = train(cohort.runs, device=device, n_last_rounds=experiment.n_last_rounds)
    label = "allotment, one run" if n_runs == 1 else f"allotment, {n_runs} runs together"
    label += ", compiled" if compiled else ""
    most_turns = experiment.training.rounds // ROUNDS_PER_BLOCK
    return Contestant(label, n_runs, turns, ROUNDS_PER_BLOCK, most_turns)


def measure(
    name: str,
    n_runs: Sequence[int],
    *,
    device: torch.device,
    compiled: bool = False,
    data: Path | None = None,
    n_segments: int = 7,
    seconds: float = 1.0,
    command: str = "",
) -> SpeedRecord:
    """Returns how long a step of one run takes in the plain loop and in ``n_runs`` together.

    ``compiled`` measures each number of runs a second time, with its step compiled.
    """
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32, for the plain loop and for ours
    environment = describe_environment(device_name(str(device)))
    contestants = [
        reference(name, data, device),
        *(ours(name, n, data, device) for n in n_runs),
        *(ours(name, n, data, device, compiled=True) for n in n_runs if compiled),
    ]
    for contestant in contestants:
        contestant.warm_up(seconds, n_segments)
    for _ in range(n_segments):
        for contestant in contestants:
            contestant.run_segment(4, device)
    return SpeedRecord(
        benchmark=name,
        command=command,
        processor=processor_name(),
        environment=environment,
        timings=tuple(contestant.timing() for contestant in contestants),
    )


def processor_name() -> str:
    """Returns what the processor calls itself."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def made_up_mnist(folder: Path) -> None:
    """Writes random images and labels in the shapes of MNIST."""
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        name: random.integers(256 if name.startswith("x") else 10, size=spec.shape, dtype=np.uint8)
        for name, spec in DATASETS["mnist"].arrays.items()
    }
    np.savez(folder / DATASETS["mnist"].file_name, **arrays)


def find_mnist(folder: Path | None, stack: ExitStack) -> Path:
    """Returns a folder with MNIST in it, or with made-up images for as long as ``stack`` lasts."""
    folder = data_folder(folder)
    if (folder / DATASETS["mnist"].file_name).is_file():
        return folder
    made_up = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    made_up_mnist(made_up)
    return made_up


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description="Measures training beside a plain loop.")
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument(
        "--runs", type=int, nargs="+", metavar="N", help="together; default: 1 and as declared"
    )
    parser.add_argument("--compile", action="store_true", help="measure compiled steps too")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--segments", type=int, default=7, metavar="N", help="of each, in turns")
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long is a segment")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="default: $ALLOTMENT_DATA")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args(arguments)
    options.runs = options.runs or [1, EXPERIMENTS[options.benchmark].n_runs]
    if min(*options.runs, options.segments) < 1 or options.seconds <= 0:
        parser.error("`--runs` and `--segments` should be at least 1 and `--seconds` above 0.")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("`--device` should be one that is here. Found 'cuda', but no CUDA device.")
    return options


def recorded_command(arguments: Sequence[str]) -> str:
    """Returns the command for the record, without the options that say where files lie."""
    kept = list(arguments)
    for option in ("--data-dir", "--json"):
        if option in kept:
            place = kept.index(option)
            del kept[place : place + 2]
    return shlex.join(["python", "benchmarks/speed.py", *kept])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures one benchmark, prints its table, and writes its record if asked to."""
    options = parse(arguments)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        data = find_mnist(options.data_dir, stack) if options.benchmark == "mnist" else None
        record = measure(
            options.benchmark,
            options.runs,
            device=torch.device(options.device),
            compiled=options.compile,
            data=data,
            n_segments=options.segments,
            seconds=options.seconds,
            command=recorded_command(arguments or sys.argv[1:]),
        )
    table = timing_table(record)
    shown = RichTable(*table.head, box=None, pad_edge=False)
    for row in table.rows:
        shown.add_row(*row)
    console = Console()
    title = f"{record.benchmark}: medians of {options.segments} segments (least to most)"
    console.print(title, highlight=False)
    console.print(shown)
    if options.json:
        options.json.write_text(record.to_json(), encoding="utf-8")
        console.print(f"Record: {options.json}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, DataError) as error:
        sys.exit(f"speed.py: {error}")
