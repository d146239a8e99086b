"""Measures a sweep of short runs on a Ray cluster beside one in plain processes on this machine.

Both have as many workers, which import the library and train one run group after another; both are
timed from the call to the last record, in turns, so that other load falls on both alike. What
starting the cluster takes is the warm-up of Ray, and in no segment.
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment.experiments import Sweep, run_sweep
from allotment.experiments.launchers import Launcher, Processes, RayCluster
from allotment.paper import EXPERIMENTS
from allotment.records import Timing
from benchmarks.measurement import show, speed_record, write


def seconds(launcher: Launcher, n_runs: int, rounds: int) -> float:
    """Returns what a sweep takes whose runs all train alone."""
    declared = EXPERIMENTS["two_pairs"]
    experiment = replace(declared, training=declared.training.changed(rounds=rounds))
    with tempfile.TemporaryDirectory() as out:
        sweep = Sweep(
            experiment=experiment,
            methods=[experiment.method("gumbel")],
            out=Path(out) / "runs",
            n_runs=n_runs,
            group_size=1,
        )
        started = time.perf_counter()
        folders = run_sweep(sweep, launcher=launcher)
        taken = time.perf_counter() - started
    assert len(folders) == n_runs
    return taken


def main() -> int:
    """Measures both, prints a table, and writes a record if asked to."""
    parser = argparse.ArgumentParser(description="Measures Ray beside plain processes.")
    parser.add_argument("--runs", type=int, default=40, metavar="N")
    parser.add_argument("--rounds", type=int, default=1_000, metavar="K")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    parser.add_argument("--segments", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    started = time.perf_counter()
    node = {"num_cpus": options.workers, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    warm_up = time.perf_counter() - started
    ways = {
        "processes": Processes(options.workers),
        "Ray": RayCluster(cluster.address, gpus_per_group=0),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.segments):
        for name, launcher in ways.items():
            taken[name].append(seconds(launcher, options.runs, options.rounds))
    cluster.shutdown()  # type: ignore[no-untyped-call]
    n_batches = options.runs * options.rounds * 4  # tasks
    timings = [
        Timing(
            label=name,
            n_runs=1,
            warm_up_seconds=warm_up if name == "Ray" else 0.0,
            milliseconds=tuple(1000 * each / n_batches for each in taken[name]),
        )
        for name in ways
    ]
    title = f"{options.runs} runs of two_pairs, {options.workers} workers"
    record = speed_record("launchers.py", title, timings)
    show(record)
    console = Console()
    for name, times in taken.items():
        each = ", ".join(f"{value:.1f}" for value in times)
        console.print(f"{name}: {each} s, median {median(times):.1f} s")
    pairs = zip(taken["processes"], taken["Ray"], strict=True)
    ratios = [on_ray / plain for plain, on_ray in pairs]
    console.print(
        f"Ray takes {median(ratios):.2f} times as long ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    write(record, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
