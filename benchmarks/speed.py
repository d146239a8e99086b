"""Measures training beside a plainly written loop, in one process.

Short segments of the plain loop (``reference.py``), of one run and of several runs together are
timed in turns, so that whatever else the machine does falls on all of them alike. Everything a step
costs is inside: drawing batches, clipping, the optimizer, the tracking of losses and gates.
Building, recording the step and the first rounds are timed apart, as the warm-up. The floor is what
the arithmetic alone, or the memory alone, would take at rates measured in the same process.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment.experiments import device_name
from allotment.paper import EXPERIMENTS
from allotment.records import Floor, SpeedRecord, describe_environment
from allotment.report import floor_lines
from benchmarks.contestants import METHODS, PRECISIONS, benchmark_experiment, ours, reference
from benchmarks.floor import floor
from benchmarks.made_up import SIZES
from benchmarks.measurement import processor_name, recorded_command, show, take_turns, write

BENCHMARKS = tuple(METHODS)


def measure(
    name: str,
    n_runs: Sequence[int],
    *,
    device: torch.device,
    precisions: Sequence[str] = ("off",),
    compiled: bool = False,
    joint: bool = False,
    n_segments: int = 7,
    seconds: float = 1.0,
    command: str = "",
) -> SpeedRecord:
    """Returns how long a step of one run takes in the plain loop and in ``n_runs`` together.

    ``compiled`` and ``joint`` measure one more way of each.
    """
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32, for the plain loop; ours sets its own
    environment = describe_environment(device_name(str(device)))
    contestants = [reference(name, device)]
    for precision in precisions:
        contestants += [ours(name, n, device, precision=precision) for n in n_runs]
        if compiled:
            contestants += [
                ours(name, n, device, precision=precision, compiled=True) for n in n_runs
            ]
        if joint:
            contestants.append(ours(name, 1, device, precision=precision, joint=True))
    timings = take_turns(contestants, seconds, n_segments, device)
    return SpeedRecord(
        benchmark=name,
        command=command,
        processor=processor_name(),
        environment=environment,
        timings=timings,
        floors=tuple(_floor(name, PRECISIONS[p], device) for p in precisions),
    )


def _floor(name: str, precision: str, device: torch.device) -> Floor:
    experiment = benchmark_experiment(name)
    n_outputs = SIZES[name][3] if name in SIZES else 1
    n_tasks = SIZES[name][0] if name in SIZES else 4
    outputs = {f"task {t}": n_outputs for t in range(n_tasks)}
    network = experiment.build_network(experiment.method(METHODS[name]), outputs, seed=0)
    shape = SIZES[name][2] if name in SIZES else (128,)
    return floor(network, (experiment.training.batch_size, *shape), precision, device)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description="Measures training beside a plain loop.")
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument(
        "--runs", type=int, nargs="+", metavar="N", help="together; default: 1 and as declared"
    )
    parser.add_argument(
        "--precision", nargs="+", choices=PRECISIONS, default=["off"], help="of ours"
    )
    parser.add_argument("--joint", action="store_true", help="measure joint steps too")
    parser.add_argument("--compile", action="store_true", help="measure compiled steps too")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--segments", type=int, default=7, metavar="N", help="of each, in turns")
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long is a segment")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args(arguments)
    options.runs = options.runs or [1, EXPERIMENTS[options.benchmark].n_runs]
    if min(*options.runs, options.segments) < 1 or options.seconds <= 0:
        parser.error("`--runs` and `--segments` should be at least 1 and `--seconds` above 0.")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("`--device` should be one that is here. Found 'cuda', but no CUDA device.")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures one benchmark, prints its table, and writes its record if asked to."""
    options = parse(arguments)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
    record = measure(
        options.benchmark,
        options.runs,
        device=torch.device(options.device),
        precisions=options.precision,
        compiled=options.compile,
        joint=options.joint,
        n_segments=options.segments,
        seconds=options.seconds,
        command=recorded_command("speed.py", arguments or sys.argv[1:]),
    )
    console = Console()
    title = f"{record.benchmark}: medians of {options.segments} segments (least to most)"
    console.print(title, highlight=False)
    show(record)
    for line in floor_lines(record):
        console.print(line, highlight=False, soft_wrap=True)
    write(record, options.json)
    if options.json:
        console.print(f"Record: {options.json}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError) as error:
        sys.exit(f"speed.py: {error}")
