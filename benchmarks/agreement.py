"""Compares the losses of the recorded step with those of the plain eager one, step by step.

Both make the same draws, so the losses differ by rounding alone, which training then amplifies.
"""

import argparse
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table as RichTable

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment.settings import ROUNDS_PER_BLOCK
from allotment.training import Run
from benchmarks.contestants import METHODS, PRECISIONS, benchmark_experiment
from benchmarks.made_up import made_up_tasks

CHECKED = (1, 10, 50, 100, 200)  # steps


def losses(name: str, precision: str, device: torch.device, *, trace: bool) -> torch.Tensor:
    """Returns the losses of two runs, ``[steps, R]``."""
    from allotment._engine import Trainer  # inside the library, at each single step

    experiment = benchmark_experiment(name, mixed_precision=precision, trace=trace)
    tasks = made_up_tasks(name)
    method = experiment.method(METHODS[name])
    outputs = {task.name: task.n_outputs for task in tasks}
    settings = method.settings(experiment.training)
    runs = [
        Run(experiment.build_network(method, outputs, seed), tasks, seed, settings)
        for seed in range(2)
    ]
    trainer = Trainer(runs, device)
    n_batches = ROUNDS_PER_BLOCK * len(tasks)
    n_blocks = -(-CHECKED[-1] // n_batches)
    return torch.cat([trainer.steps(k, n_batches)[0].cpu().clone() for k in range(n_blocks)])


def main() -> int:
    """Prints the largest difference up to some steps."""
    parser = argparse.ArgumentParser(description="Compares recorded and eager steps.")
    parser.add_argument("--networks", nargs="+", default=["mnist", "clusters", "omniglot"])
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=["off"])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    table = RichTable(
        "network", "precision", *(f"{n} steps" for n in CHECKED), box=None, pad_edge=False
    )
    for name in options.networks:
        for precision in options.precision:
            device = torch.device(options.device)
            ours, plain = (losses(name, precision, device, trace=trace) for trace in (True, False))
            worst = [f"{(ours - plain)[:n].abs().max():.1e}" for n in CHECKED]
            table.add_row(name, precision, *worst)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
