"""Networks that the benchmarks of deployment share: two suites, trained under budgets, and kept.

What is trained is kept under ``runs/deploy``, so that latencies can be measured afterwards, when
the machine is quiet.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment.allocation import GumbelMatrix
from allotment.experiments import Experiment, Method, TaskChoice, using
from allotment.modules import TaskNetwork
from allotment.paper import EXPERIMENTS
from allotment.settings import TrainingSettings
from allotment.tasks import Task
from allotment.training import Run, train

KEPT = Path("runs") / "deploy"
BUDGETS = (1.0, 0.75, 0.5, 0.25)
COSTS = ("count", "flops")
METHOD = Method(name="gumbel", allocation=using(GumbelMatrix))


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tasks and a network that are trained under several budgets.

    Attributes:
        name: Of its files.
        title: Of its tables.
        experiment: Where tasks and networks come from.
        seeds: One run for each, at each budget.
        settings: How to train, but for the budget.
    """

    name: str
    title: str
    experiment: Experiment
    seeds: tuple[int, ...]
    settings: TrainingSettings

    def tasks(self) -> list[Task]:
        return list(self.experiment.make_tasks(TaskChoice("", 0, None)))

    def network(self, outputs: dict[str, int], seed: int) -> TaskNetwork:
        """Returns the untrained network, its gates to be learnt."""
        return self.experiment.build_network(METHOD, outputs, seed)


# Enough that a quarter is kept to, where the loss of shutting a gate is large.
_CHANGES: dict[str, Any] = {"budget_weight": 3.0}
SUITES = {
    "mnist": Suite(
        name="mnist",
        title="4-MNISTs",
        experiment=EXPERIMENTS["comparison_mnist"],
        seeds=(0, 1, 2),
        settings=EXPERIMENTS["comparison_mnist"].training.changed(rounds=1_500, **_CHANGES),
    ),
    "census": Suite(
        name="census",
        title="Census",
        experiment=EXPERIMENTS["comparison_census"],
        seeds=(0, 1, 2, 3, 4),
        settings=EXPERIMENTS["comparison_census"].training.changed(**_CHANGES),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A network, and what it reached on the test splits, if it was tried: a mean over tasks."""

    network: TaskNetwork
    score: float | None


def outputs_of(tasks: Sequence[Task]) -> dict[str, int]:
    """Returns how many outputs each task has, by name."""
    return {task.name: task.n_outputs for task in tasks}


def scores(found: Any) -> list[float]:
    """Returns each task's own metric, or its accuracy where tasks have none, ``[T]``."""
    if not found.metrics:
        return [float(value) for value in found.accuracies]
    return [float(value) for value in np.nansum(list(found.metrics.values()), axis=0)]


def cases(suite: Suite, cost: str) -> list[tuple[float, int]]:
    """Returns budgets with seeds; a budget of all costs nothing, so it stands under one cost."""
    return [(b, seed) for b in BUDGETS for seed in suite.seeds if cost == COSTS[0] or b < 1]


def train_all(suite: Suite, tasks: Sequence[Task], folder: Path = KEPT) -> None:
    """Trains every budget and seed, those of one kind of cost together, and keeps the networks."""
    tasks = [replace(task, validation=None) for task in tasks]  # nothing is chosen
    for cost in COSTS:
        paths = [_path(suite, cost, *case, folder) for case in cases(suite, cost)]
        if all(path.with_suffix(".json").exists() for path in paths):
            continue
        runs = [
            Run(
                suite.network(outputs_of(tasks), seed),
                tasks,
                seed,
                suite.settings.changed(budget=budget, cost=cost),
            )
            for budget, seed in cases(suite, cost)
        ]
        for progress in train(runs):
            if progress.round % 100 == 0:
                print(f"{suite.name}, {cost}: round {progress.round:,}", flush=True)
        for path, outcome in zip(paths, progress.outcomes or [], strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            save_file({k: v.contiguous() for k, v in outcome.weights.items()}, path)
            kept = {"test": scores(outcome.test)}
            path.with_suffix(".json").write_text(json.dumps(kept), encoding="utf-8")


def read_all(
    suite: Suite, tasks: Sequence[Task], folder: Path = KEPT
) -> dict[tuple[str, float], list[Trained]]:
    """Returns what `train_all` kept, by cost and budget: a network for each seed."""
    found: dict[tuple[str, float], list[Trained]] = {}
    for cost in COSTS:
        for budget, seed in cases(suite, cost):
            path = _path(suite, cost, budget, seed, folder)
            network = suite.network(outputs_of(tasks), seed)
            network.load_state_dict(load_file(path))
            reached = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            score = float(np.mean(reached["test"]))
            own = Trained(network=network.eval(), score=score)
            found.setdefault((cost, budget), []).append(own)
    return found


def _path(suite: Suite, cost: str, budget: float, seed: int, folder: Path) -> Path:
    return folder / suite.name / f"{cost}-{budget:g}-{seed}.safetensors"


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains the networks of the suites that are named, unless they are there."""
    for name in arguments or sys.argv[1:] or SUITES:
        train_all(SUITES[name], SUITES[name].tasks())
    return 0


if __name__ == "__main__":
    sys.exit(main())
