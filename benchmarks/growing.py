"""Measures what a task that comes later reaches with few examples, and that the others stay.

It is added to a trained network, where its gates and its head alone learn; trained alone, in a
network of its own; or learnt with all tasks anew. Weights are chosen by validation everywhere, and
so is the task that the new one is like.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
from allotment._streams import stream
from allotment.allocation import SharedBottom
from allotment.experiments import Method, device_name, using
from allotment.modules import TaskNetwork, add_task
from allotment.records import GrowthRecord, GrowthRow, describe_environment
from allotment.settings import TrainingSettings
from allotment.tasks import Split, Task
from allotment.training import Run, fit, train
from benchmarks.deployed import SUITES, Suite, outputs_of, scores
from benchmarks.measurement import processor_name, write

SIZES = (10, 100, 1_000)
ROUNDS = {"mnist": 500, "census": 2_000}  # of the new task by itself, at most
N_VALIDATION = 1_000  # examples that weights are chosen by
ALONE = Method(name="alone", allocation=using(SharedBottom, reduce="mean"))
SAID = (
    "the new task's test score by its number of training examples; weights, and the task that it "
    f"is like, chosen on {N_VALIDATION:,} validation examples of it; outputs of old tasks compared "
    "bit by bit"
)


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A task that comes after others.

    Attributes:
        suite: Where the network comes from, and how all tasks are trained.
        old: Tasks that are there before.
        new: The one that comes, with all of its examples.
        rounds: Of a training of the new task by itself.
        best: What weights are chosen by: as `keep_best` says it.
    """

    suite: Suite
    old: list[Task]
    new: Task
    rounds: int
    best: bool | str = True

    @property
    def settings(self) -> TrainingSettings:
        """How the new task trains by itself."""
        return self.checked(self.suite.settings.changed(rounds=self.rounds))

    def checked(self, settings: TrainingSettings) -> TrainingSettings:
        """Returns settings by which weights are chosen on validation, at one of ten checks."""
        return settings.changed(evaluate_every=settings.rounds // 10, keep_best=self.best)

    def few(self, n: int, seed: int) -> Task:
        """Returns the new task with so many training examples, of each seed others."""
        assert isinstance(self.new.train, Split)
        return replace(self.new, train=some(self.new.train, n, seed))


def some(split: Split, n: int, seed: int) -> Split:
    """Returns ``n`` examples of a split, or all where there are fewer; a few are among the many."""
    rows = torch.arange(len(split.inputs)) if split.rows is None else split.rows
    order = torch.randperm(len(rows), generator=stream(seed, "few examples"))
    return replace(split, rows=rows[order[:n]])


def upside_down(task: Task) -> Task:
    """Returns a task on upright images with all of them turned by 180 degrees."""
    turned = torch.arange(28 * 28).flip(0)
    splits = {
        name: replace(getattr(task, name), permutation=turned)
        for name in ("train", "validation", "test")
    }
    return replace(task, name="MNIST upside down", family="upside down", **splits)


def growths(name: str) -> Growth:
    """Returns what comes late: upside-down images to 4-MNISTs, the income to the other eight."""
    suite = SUITES[name]
    tasks = suite.tasks()
    is_late = [task.name == "income" for task in tasks]
    new = upside_down(tasks[0]) if name == "mnist" else tasks[is_late.index(True)]
    new = replace(new, validation=some(new.validation, N_VALIDATION, 0))
    old = [replace(t, validation=None, test=None) for t in tasks if t.name != new.name]
    best = next(iter(new.metrics), True)
    return Growth(suite=suite, old=old, new=new, rounds=ROUNDS[name], best=best)


def trained(runs: Sequence[Run]) -> list[float]:
    """Trains runs together; returns what the last task of each reached on its test split."""
    *_, last = train(runs)
    assert last.outcomes is not None
    return [scores(outcome.test)[-1] for outcome in last.outcomes]


def old_networks(growth: Growth, seeds: Sequence[int]) -> list[TaskNetwork]:
    """Returns networks that have learnt the old tasks."""
    made = [growth.suite.network(outputs_of(growth.old), seed) for seed in seeds]
    runs = [
        Run(network, growth.old, seed, growth.suite.settings)
        for network, seed in zip(made, seeds, strict=True)
    ]
    *_, last = train(runs)
    for network, outcome in zip(made, last.outcomes or [], strict=True):
        network.load_state_dict(outcome.weights)
    return [network.eval() for network in made]


@torch.no_grad()
def outputs(network: TaskNetwork, growth: Growth) -> list[Tensor]:
    """Returns what the network gives for examples of each old task."""
    rows = torch.arange(256)
    return [network(task.train.fetch(rows)[0], task.name) for task in growth.old]


def added(growth: Growth, old: TaskNetwork, task: Task, seed: int, like: str | None) -> list[float]:
    """Returns the scores on validation and test of a task that is added to a network."""
    network = deepcopy(old)
    torch.manual_seed(seed)
    width = network.heads[0].in_features  # type: ignore[index]
    add_task(network, task.name, nn.Linear(width, task.n_outputs), like=like)
    before = outputs(network, growth)
    result = fit(network, [task], growth.settings, seed=seed, only=[task.name], show=False)
    for a, b, c in zip(before, outputs(network, growth), outputs(old, growth), strict=True):
        if not (torch.equal(a, b) and torch.equal(a, c)):
            raise AssertionError("Outputs of old tasks should stay the same to the bit.")
    return [scores(found)[0] for found in (result.validation, result.test)]


def nearest(growth: Growth, old: TaskNetwork, task: Task, seed: int) -> float:
    """Returns the test score with the gates of the old task that validation chooses.

    Of old tasks with the same gates one is tried.
    """
    matrices = [layer.allocation.matrix() for layer in old.modular_layers]
    rows = torch.cat(matrices, dim=1).tolist()
    tried = {tuple(row): name for row, name in zip(rows, old.task_names, strict=True)}
    found = [added(growth, old, task, seed, name) for name in tried.values()]
    return max(found)[1]


def measure(growth: Growth, seeds: Sequence[int]) -> Iterator[GrowthRow]:
    """Yields what each way reached with so many examples."""
    suite, cases = growth.suite, [(n, seed) for n in SIZES for seed in seeds]
    new = {case: growth.few(*case) for case in cases}
    own = {growth.new.name: growth.new.n_outputs}
    old = dict(zip(seeds, old_networks(growth, seeds), strict=True))
    named = partial(GrowthRow, suite=suite.title, task=growth.new.name)
    alone = [
        Run(suite.experiment.build_network(ALONE, own, seed), [new[n, seed]], seed, growth.settings)
        for n, seed in cases
    ]
    anew = [
        Run(
            suite.network({**outputs_of(growth.old), **own}, seed),
            [*growth.old, new[n, seed]],
            seed,
            growth.checked(suite.settings),
        )
        for n, seed in cases
    ]
    ways = {
        "added, gates that favour nothing": [
            added(growth, old[seed], new[n, seed], seed, None)[1] for n, seed in cases
        ],
        "added, gates of the nearest task": [
            nearest(growth, old[seed], new[n, seed], seed) for n, seed in cases
        ],
        "alone": trained(alone),
        "all tasks trained anew": trained(anew),
    }
    for way, found in ways.items():
        for n in SIZES:
            own_scores = [score for score, case in zip(found, cases, strict=True) if case[0] == n]
            yield named(way=way, n_examples=n, scores=tuple(own_scores))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures one suite, prints what was found, and writes a record if asked to."""
    parser = argparse.ArgumentParser(description="Measures a task that comes later.")
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args(arguments)
    rows = []
    for row in measure(growths(options.suite), range(options.seeds)):
        rows.append(row)
        shown = ", ".join(f"{score:.4f}" for score in row.scores)
        print(f"{row.way:34} {row.n_examples:6} {shown}", flush=True)
    if options.json:
        record = GrowthRecord(
            command=f"python benchmarks/growing.py {options.suite}",
            description=SAID,
            processor=processor_name(),
            environment=describe_environment(device_name("cpu")),
            rows=tuple(rows),
        )
        write(record, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
