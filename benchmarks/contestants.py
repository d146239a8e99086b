"""The plain loops and allotment's own, taken further turn by turn."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from allotment.experiments import Experiment, Sweep, run_groups
from allotment.paper import EXPERIMENTS
from allotment.records import Timing
from allotment.settings import ROUNDS_PER_BLOCK
from allotment.training import train
from benchmarks.made_up import SIZES, examples_of, made_up_tasks
from benchmarks.reference import train_mnist, train_two_pairs
from benchmarks.reference_images import train_clusters, train_omniglot

# As the command line sets it; read when the device is first used.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")

METHODS = {
    "two_pairs": "gumbel",
    "mnist": "gumbel",
    "omniglot": "gumbel",
    "clusters": "gumbel_budget",
}
PRECISIONS = {"off": "float32", "tf32": "tf32", "bfloat16": "bfloat16"}  # setting: products
LARGE = ("omniglot", "clusters")  # the plain loop's loss is read after every round
N_WARM_UP = 3  # turns, of which the last tells how many make a segment
MOST_ROUNDS = 10_000_000  # of the plain loop, which goes on as long as it is asked


@dataclass
class Contestant:
    """A way of training, taken further turn by turn."""

    label: str
    n_runs: int
    precision: str
    turns: Iterator[Any]
    steps_per_turn: int  # of one run
    most_turns: int
    turns_per_segment: int = 1
    warm_up_seconds: float = 0.0
    peak_gibibytes: float | None = None
    milliseconds: list[float] = field(default_factory=list)  # of one step of one run
    is_joint: bool = False  # whether an optimizer step takes a batch of every task
    clock: Callable[[], float] = time.perf_counter  # of segments

    def warm_up(self, seconds: float, n_segments: int, device: torch.device) -> None:
        """Takes the first turns, and sets the length of a segment to about ``seconds``."""
        before = _start_of_memory(device)
        started = time.perf_counter()
        for _ in range(N_WARM_UP):
            last = time.perf_counter()
            next(self.turns)
        _wait(device)
        now = time.perf_counter()
        self.warm_up_seconds = now - started
        room = (self.most_turns - N_WARM_UP) // n_segments
        self.turns_per_segment = max(1, min(room, round(seconds / (now - last))))
        if before is not None:
            self.peak_gibibytes = (torch.cuda.max_memory_allocated(device) - before) / 2**30

    def run_segment(self, device: torch.device) -> None:
        """Takes a segment's turns and remembers how long a step of one run took."""
        started = self.clock()
        for _ in range(self.turns_per_segment):
            next(self.turns)
        _wait(device)
        seconds = self.clock() - started
        n_steps = self.turns_per_segment * self.steps_per_turn * self.n_runs
        self.milliseconds.append(1000 * seconds / n_steps)

    def timing(self) -> Timing:
        """Returns what was measured."""
        return Timing(
            label=self.label,
            n_runs=self.n_runs,
            precision=self.precision,
            warm_up_seconds=round(self.warm_up_seconds, 3),
            peak_gibibytes=self.peak_gibibytes and round(self.peak_gibibytes, 3),
            milliseconds=tuple(round(value, 5) for value in self.milliseconds),
            is_joint=self.is_joint,
        )


def reference(name: str, device: torch.device) -> Contestant:
    """Returns the plain loop of a benchmark; on a GPU its products may be in TF32."""
    n_tasks = SIZES[name][0] if name in SIZES else 4
    if name == "two_pairs":
        loop = train_two_pairs(MOST_ROUNDS, device)
    elif name == "mnist":
        images, labels = examples_of(made_up_tasks(name))[0]
        loop = train_mnist(MOST_ROUNDS, images.squeeze(1), labels, device)
    else:
        train_plain = train_omniglot if name == "omniglot" else train_clusters
        loop = train_plain(MOST_ROUNDS, examples_of(made_up_tasks(name)), device)
    n_rounds = 1 if name in LARGE else ROUNDS_PER_BLOCK
    turns = (_rounds(loop, n_rounds) for _ in range(MOST_ROUNDS))
    precision = "tf32" if device.type == "cuda" else "float32"
    return Contestant("plain loop, one run", 1, precision, turns, n_rounds * n_tasks, MOST_ROUNDS)


def _rounds(loop: Iterator[torch.Tensor], n: int) -> float:
    """Takes rounds of a plain loop and reads their loss, as ours does once a block."""
    return float(torch.stack([next(loop) for _ in range(n)]).mean())


def benchmark_experiment(name: str, n_tasks: int | None = None, **training: Any) -> Experiment:
    """Returns an experiment on made-up images, without validation checks."""
    experiment = EXPERIMENTS[name].on_splits([])
    settings = experiment.training.changed(evaluate_every=None, **training)
    experiment = replace(experiment, training=settings)
    if name not in SIZES:
        return experiment
    return replace(experiment, tasks=made_up_tasks(name, n_tasks))


def ours(
    name: str,
    n_runs: int,
    device: torch.device,
    *,
    precision: str,
    compiled: bool = False,
    joint: bool = False,
    n_tasks: int | None = None,
) -> Contestant:
    """Returns runs of a benchmark that train together in allotment's own loop.

    With ``n_tasks`` an experiment on images has only so many tasks.
    """
    schedule = "joint" if joint else "alternating"
    experiment = benchmark_experiment(
        name, n_tasks, compile=compiled, mixed_precision=precision, schedule=schedule
    )
    sweep = Sweep(
        experiment=experiment,
        methods=(experiment.method(METHODS[name]),),
        out=Path(),  # nothing is written
        n_runs=n_runs,
        device=str(device),
    )
    (group,) = run_groups(sweep)
    turns = train(group.runs, device=device)
    label = "allotment, one run" if n_runs == 1 else f"allotment, {n_runs} runs together"
    label += ", joint steps" if joint else ""
    label += ", compiled" if compiled else ""
    steps_per_turn = ROUNDS_PER_BLOCK * len(group.runs[0].tasks)
    most_turns = experiment.training.rounds // ROUNDS_PER_BLOCK
    return Contestant(
        label, n_runs, PRECISIONS[precision], turns, steps_per_turn, most_turns, is_joint=joint
    )


def _start_of_memory(device: torch.device) -> int | None:
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
