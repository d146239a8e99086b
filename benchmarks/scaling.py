"""Measures how the cost of a step grows with tasks, with components in a layer, and with runs.

The network is that of 4-MNISTs with as many tasks and components as asked for, on random images, or
a small one of linear components (``--small``), with which ten thousand tasks take a CPU minutes.
A step takes one task's batch in each run, so its cost should not depend on the number of tasks.
"""

import argparse
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment.allocation import GumbelMatrix
from allotment.experiments import device_name
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.paper import EXPERIMENTS
from allotment.paper.networks import mnist_network
from allotment.records import ScalingRecord, ScalingRow, describe_environment
from allotment.settings import ROUNDS_PER_BLOCK, TrainingSettings
from allotment.tasks import Split, Task
from allotment.training import Run, train
from benchmarks.measurement import processor_name, recorded_command, write

USUAL = {"tasks": 4, "components": 4, "runs": 1}
STEPS_TIMED = 30_000  # at least, in up to three blocks of ten rounds
NAMES = {
    False: "the 4-MNISTs network",
    True: "a network of two modular layers, 16 features wide, batches of 32 and 2 outputs a task,",
}
DESCRIPTION = (
    "with one thing varied and the others at 4 tasks, 4 components in a layer and 1 run; the "
    "fastest of up to three blocks of ten rounds, measured once, on a CPU in processor time of one "
    "thread; memory is the most that was held, of the device, or on a CPU of the process beyond "
    "what it held before"
)


def small_network(n_tasks: int, n_components: int) -> MultiTaskNetwork:
    """Returns two modular layers of linear components."""
    layers: list[nn.Module] = []
    for _ in range(2):
        components = [nn.Linear(16, 16) for _ in range(n_components)]
        layers += [ModularLayer(components, GumbelMatrix(n_tasks, n_components)), nn.ReLU()]
    heads = {f"task {t}": nn.Linear(16, 2) for t in range(n_tasks)}
    return MultiTaskNetwork(None, layers, heads)


def network(n_tasks: int, n_components: int) -> MultiTaskNetwork:
    """Returns the 4-MNISTs network with other numbers of tasks and components."""
    outputs = {f"task {t}": 10 for t in range(n_tasks)}
    return mnist_network(lambda c, **_: GumbelMatrix(n_tasks, c), outputs, n_components)


def made_up_runs(sizes: dict[str, int], n_blocks: int, *, small: bool) -> list[Run]:
    """Returns runs on random examples, which all tasks share."""
    labels = torch.arange(1_000)
    if small:
        split = Split(torch.randn(1_000, 16), labels % 2)
    else:
        images = torch.randint(256, (1_000, 1, 28, 28), dtype=torch.uint8)
        split = Split(images, labels % 10, scale=1 / 255)
    tasks = [Task(f"task {t}", split) for t in range(sizes["tasks"])]
    rounds = (n_blocks + 2) * ROUNDS_PER_BLOCK  # the last block also counts what comes after it
    usual = TrainingSettings(batch_size=32) if small else EXPERIMENTS["mnist"].training
    settings = replace(usual, rounds=rounds)
    made = (small_network if small else network)(sizes["tasks"], sizes["components"])
    return [Run(made, tasks, seed, settings) for seed in range(sizes["runs"])]


def cost(sizes: dict[str, int], device: torch.device, small: bool) -> tuple[float, float]:
    """Returns the milliseconds of one step of all runs, and the most memory held, in MiB."""
    clock = time.perf_counter
    if device.type == "cpu":  # so that what else the machine does counts little
        torch.set_num_threads(1)
        clock = time.process_time
    before = held(device)
    per_block = ROUNDS_PER_BLOCK * sizes["tasks"]
    n_blocks = min(max(STEPS_TIMED // per_block, 1), 3)
    blocks = train(made_up_runs(sizes, n_blocks, small=small), device=device)
    next(blocks)
    times = []
    for _ in range(n_blocks):
        started = clock()
        next(blocks)
        times.append(clock() - started)
    del blocks  # a training that is not ended holds its memory
    return 1000 * min(times) / per_block, held(device) - before


def held(device: torch.device) -> float:
    """Returns the most memory that was held so far, in MiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts in KiB


def alone(sizes: dict[str, int], device: torch.device, small: bool) -> tuple[float, float]:
    """Returns what `cost` does, as if it were the first thing that is measured."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return cost(sizes, device, small)
    # The most a process held never falls, so each has one of its own.
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(cost, (sizes, device, small))


def measure(
    sizes: dict[str, Sequence[int]], device: torch.device, *, small: bool
) -> Iterator[ScalingRow]:
    """Yields what each size costs, the others being as usual."""
    for varied, values in sizes.items():
        for value in values:
            step, memory = alone(USUAL | {varied: value}, device, small)
            yield ScalingRow(
                varied=varied, number=value, milliseconds=round(step, 4), mebibytes=round(memory)
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and writes a record if asked to."""
    parser = argparse.ArgumentParser(description="Measures how the cost of a step grows.")
    parser.add_argument("--tasks", type=int, nargs="*", default=[10, 100, 1_000, 10_000])
    parser.add_argument("--components", type=int, nargs="*", default=[4, 16, 64, 256, 512])
    parser.add_argument("--runs", type=int, nargs="*", default=[1, 8, 32, 128, 512])
    parser.add_argument("--small", action="store_true", help="a small network")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    sizes = {name: getattr(options, name) for name in USUAL}
    rows = []
    print(f"{'varied':12} number  ms per step of all runs    MiB")
    for row in measure(sizes, device, small=options.small):
        rows.append(row)
        print(
            f"{row.varied:12} {row.number:6} {row.milliseconds:24.3f} {row.mebibytes:6}", flush=True
        )
    if options.json:
        record = ScalingRecord(
            command=recorded_command("scaling.py", arguments or sys.argv[1:]),
            description=f"{NAMES[options.small]} {DESCRIPTION}",
            processor=processor_name(),
            environment=describe_environment(device_name(options.device)),
            rows=tuple(rows),
        )
        write(record, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
