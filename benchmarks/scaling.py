"""Measures how the cost of a step grows with tasks, with components in a layer, and with runs.

The network is that of 4-MNISTs with as many tasks and components as asked for, on random images.
A step takes one task's batch in each run, so its cost should not depend on the number of tasks.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table as RichTable

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment.allocation import GumbelMatrix
from allotment.experiments import device_name
from allotment.modules import MultiTaskNetwork
from allotment.paper import EXPERIMENTS
from allotment.paper.networks import mnist_network
from allotment.records import ScalingRecord, ScalingRow, describe_environment
from allotment.settings import ROUNDS_PER_BLOCK
from allotment.tasks import Split, Task
from allotment.training import Run, train
from benchmarks.speed import processor_name

USUAL = {"tasks": 4, "components": 4, "runs": 1}
N_BLOCKS = 3  # timed, after one that is not; the fastest counts
DESCRIPTION = (
    "the 4-MNISTs network with one thing varied and the others at 4 tasks, 4 components in a layer "
    "and 1 run; the fastest of three blocks of ten rounds, measured once"
)


def network(n_tasks: int, n_components: int) -> MultiTaskNetwork:
    """Returns the 4-MNISTs network with other numbers of tasks and components."""
    outputs = {f"task {t}": 10 for t in range(n_tasks)}
    return mnist_network(lambda c, **_: GumbelMatrix(n_tasks, c), outputs, n_components)


def milliseconds(n_tasks: int, n_components: int, n_runs: int, device: torch.device) -> float:
    """Returns the time of one step of all runs."""
    images = torch.randint(256, (1_000, 1, 28, 28), dtype=torch.uint8)
    split = Split(images, torch.arange(1_000) % 10, scale=1 / 255)
    tasks = [Task(f"task {t}", split) for t in range(n_tasks)]
    rounds = (N_BLOCKS + 2) * ROUNDS_PER_BLOCK  # the last block also counts what comes after it
    settings = replace(EXPERIMENTS["mnist"].training, rounds=rounds)
    runs = [Run(network(n_tasks, n_components), tasks, seed, settings) for seed in range(n_runs)]
    blocks = train(runs, device=device)
    next(blocks)
    times = []
    for _ in range(N_BLOCKS):
        started = time.perf_counter()
        next(blocks)
        times.append(time.perf_counter() - started)
    return 1000 * min(times) / (ROUNDS_PER_BLOCK * n_tasks)


def measure(sizes: dict[str, Sequence[int]], device: torch.device) -> Iterator[ScalingRow]:
    """Yields what each size costs, the others being as usual."""
    for varied, values in sizes.items():
        for value in values:
            chosen = USUAL | {varied: value}
            step = milliseconds(chosen["tasks"], chosen["components"], chosen["runs"], device)
            yield ScalingRow(varied=varied, number=value, milliseconds=round(step, 4))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and writes a record if asked to."""
    parser = argparse.ArgumentParser(description="Measures how the cost of a step grows.")
    parser.add_argument("--tasks", type=int, nargs="+", default=[4, 40, 400])
    parser.add_argument("--components", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 10, 30, 120])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    sizes = {name: getattr(options, name) for name in USUAL}
    rows = list(measure(sizes, device))
    table = RichTable("varied", "number", "ms per step of all runs", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row.varied, str(row.number), f"{row.milliseconds:.3f}")
    Console().print(table)
    if options.json:
        record = ScalingRecord(
            command="python benchmarks/scaling.py",
            description=DESCRIPTION,
            processor=processor_name(),
            environment=describe_environment(device_name(options.device)),
            rows=tuple(rows),
        )
        options.json.write_text(record.to_json(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
