"""From a declaration to runs."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import torch

from .._checks import check_at_least
from .._schema import RunHeader
from .._threads import one_thread
from ..modules import difference
from ..settings import ROUNDS_PER_BLOCK
from ..training import Run, check_device, have_like_examples, step_operations
from ._experiment import Experiment, TaskChoice
from ._file import ExperimentFile
from ._methods import Method
from ._search import check_can_choose

_MOST_RUNS = 100_000  # of a method, whose networks are all made before the first of them trains


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Which runs of an experiment to make, and where.

    >>> from pathlib import Path
    >>> from allotment.experiments import Sweep
    >>> from allotment.paper import experiment_named
    >>> Sweep(experiment=experiment_named("two_pairs"), out=Path("runs/pairs"), n_runs=5).n_runs
    5

    Attributes:
        experiment: What is declared.
        out: Where records go, each run into a folder of its own.
        methods: Some of the experiment's; none: all.
        n_runs: Of each method; None: as many as the experiment declares.
        first_seed: Of the first run; the next has one more. None: as the experiment declares.
        group_size: The most runs that train together; None: as many as can.
        device: Where to train.
        data_folder: Of the data sets; None: the usual one.
        command: What was typed, for the record.
        checkpoint_every: Rounds between checkpoints; None: one a minute.
        resume: Go on with runs that are there.
        deterministic: On a GPU: the same bits each time, if slower.
        options: To be kept beside the runs.
        is_search: Whether its runs are there to choose learning rates by, which then may differ
            among runs that train together.
        file: That defines the experiment, if one does; a copy of it is kept beside the runs.
        is_own: Whether the package may not know the experiment, so that how it is reported is kept
            beside the runs.
    """

    experiment: Experiment
    out: Path
    methods: Sequence[Method] = ()
    n_runs: int | None = None
    first_seed: int | None = None
    group_size: int | None = None
    device: str = "cpu"
    data_folder: Path | None = None
    command: str = ""
    checkpoint_every: int | None = None
    resume: bool = False
    deterministic: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    is_search: bool = False
    file: ExperimentFile | None = None
    is_own: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", Path(self.out))
        object.__setattr__(self, "methods", tuple(self.methods or self.experiment.methods))
        n_runs = self.experiment.n_runs if self.n_runs is None else self.n_runs
        object.__setattr__(self, "n_runs", n_runs)
        first = self.experiment.first_seed if self.first_seed is None else self.first_seed
        object.__setattr__(self, "first_seed", first)
        check_at_least("runs", n_runs, 1)
        if n_runs > _MOST_RUNS:
            raise ValueError(f"`runs` should be at most {_MOST_RUNS}. Found `runs = {n_runs}`.")
        check_at_least("first-seed", first, 0)
        if self.group_size is not None:
            check_at_least("group-size", self.group_size, 1)
        check_device(self.device)
        if self.checkpoint_every is not None:
            check_at_least("checkpoint-every", self.checkpoint_every, 1)
            if self.checkpoint_every % ROUNDS_PER_BLOCK:
                raise ValueError(
                    f"`checkpoint-every` should be a multiple of {ROUNDS_PER_BLOCK} rounds. "
                    f"Found `checkpoint-every = {self.checkpoint_every}`."
                )

    @property
    def seeds(self) -> range:
        first = self.first_seed or 0
        return range(first, first + (self.n_runs or 0))


Member: TypeAlias = tuple[str, str, int]  # a run's condition, its method's name, and its seed


@dataclass(eq=False)
class RunGroup:
    """Runs that train together as one program: their settings and architectures agree.

    >>> from allotment.paper import experiment_named
    >>> sweep = Sweep(experiment=experiment_named("two_pairs"), out=Path("runs"), n_runs=1)
    >>> next(run_groups(sweep)).runs[0].seed
    0
    """

    methods: list[Method] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    headers: list[RunHeader] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What people are told of it."""
        labels = " + ".join(dict.fromkeys(method.label for method in self.methods))
        conditions = list(dict.fromkeys(header.condition for header in self.headers))
        shown = conditions[0] if len(conditions) == 1 else f"{len(conditions)} conditions"
        return f"{shown}  {labels}".strip()

    @property
    def name(self) -> str:
        """Its label and its seeds, which tell it from others that train at the same time."""
        seeds = sorted({run.seed for run in self.runs})
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
        return f"{self.label}, {which}"

    @property
    def members(self) -> tuple[Member, ...]:
        """What each run can be made anew from."""
        return tuple((own.condition, own.method, own.seed) for own in self.headers)

    def takes(self, run: Run, *, mixes_rates: bool = False) -> bool:
        """Tells whether a run can join: only numbers, and fixed allocations, may differ.

        Learnt and fixed allocations go apart, since a fixed one would pay for gates that learn.
        """
        first = self.runs[0]
        return (
            _is_learnt(first) == _is_learnt(run)
            and not difference(first.network, run.network)
            and first.settings.in_common() == run.settings.in_common()
            and (mixes_rates or first.settings.optimization == run.settings.optimization)
            and have_like_examples(first, run)
        )

    def add(self, method: Method, run: Run, header: RunHeader) -> None:
        """Lets a run join."""
        self.methods.append(method)
        self.runs.append(run)
        self.headers.append(header)

    def divided(self, size: int | None) -> Iterator["RunGroup"]:
        """Yields it in parts of at most so many runs; None: as it is."""
        size = size or len(self.runs)
        for first in range(0, len(self.runs), size):
            part = slice(first, first + size)
            yield RunGroup(self.methods[part], self.runs[part], self.headers[part])


def run_groups(sweep: Sweep) -> Iterator[RunGroup]:
    """Yields the runs of a sweep, those that can train as one program together.

    Under a condition, fixed allocations come first. ``sweep.group_size`` divides groups further.

    >>> from allotment.paper import experiment_named
    >>> sweep = Sweep(experiment=experiment_named("two_pairs"), out=Path("runs"), n_runs=2)
    >>> [(group.label, len(group.runs)) for group in run_groups(sweep)]
    [('No sharing + Shared bottom', 4), ('Gumbel-Matrix', 2)]
    """
    conditions = sweep.experiment.data.conditions
    together = [conditions] if sweep.experiment.data.joined else [(each,) for each in conditions]
    for part in together:
        with one_thread():  # thousands of small networks: threads would wait for each other
            groups = _whole_groups(sweep, part)
        for group in groups:
            yield from group.divided(sweep.group_size)


def _whole_groups(sweep: Sweep, conditions: Sequence[str]) -> list[RunGroup]:
    """Returns the runs under some conditions, in as few groups as can be."""
    experiment = sweep.experiment
    methods = sorted(sweep.methods, key=lambda method: method.is_learnt)
    pairs = [(method, seed) for method in methods for seed in sweep.seeds]
    mixes = sweep.is_search or experiment.data.joined
    whole: list[RunGroup] = []
    # By group and method: such runs differ in numbers alone.
    costs: dict[tuple[RunGroup, str], int] = {}
    for condition in conditions:
        for method, run in _runs(sweep, condition, pairs):
            group = next((each for each in whole if each.takes(run, mixes_rates=mixes)), None)
            if group is None:
                group = RunGroup()
                whole.append(group)
            cost = costs.get((group, method.name))
            if cost is None:
                cost = costs[group, method.name] = step_operations(run)
            group.add(method, run, experiment.header(method, condition, run, sweep.command, cost))
    return whole


def chosen_device(name: str) -> str:
    """Returns the device that is meant; "auto" is a GPU where there is one.

    >>> chosen_device("cpu")
    'cpu'
    """
    # Read when the device is first used: how many streams of a program really run side by side.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name


def device_name(device: str) -> str:
    """Returns what a device is called, for the record.

    >>> device_name("cpu").startswith("CPU")
    True
    """
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    n_threads = torch.get_num_threads()
    return f"CPU, {n_threads} thread{'s' * (n_threads > 1)}"


def remade_runs(sweep: Sweep, members: Sequence[Member]) -> list[Run]:
    """Returns the runs of one run group, made as `run_groups` makes them, and no others."""
    named = {method.name: method for method in sweep.methods}
    found = []
    for condition, own in groupby(members, lambda member: member[0]):
        pairs = [(named[name], seed) for _, name, seed in own]
        found += [run for _, run in _runs(sweep, condition, pairs)]
    return found


def _runs(
    sweep: Sweep, condition: str, pairs: Sequence[tuple[Method, int]]
) -> Iterator[tuple[Method, Run]]:
    """Yields runs under one condition, given by method and seed; methods share their tasks."""
    experiment, by_seed = sweep.experiment, sweep.experiment.data.by_seed
    seeds = dict.fromkeys(seed for _, seed in pairs) if by_seed else [sweep.seeds.start]
    made = {
        seed: experiment.make_tasks(TaskChoice(condition, seed, sweep.data_folder))
        for seed in seeds
    }
    if sweep.is_search:
        check_can_choose([task for tasks in made.values() for task in tasks])
    for method, seed in pairs:
        tasks = made[seed if by_seed else sweep.seeds.start]
        outputs = {task.name: task.n_outputs for task in tasks}
        network = experiment.build_network(method, outputs, seed, condition)
        yield method, Run(network, tasks, seed, method.settings(experiment.training))


def _is_learnt(run: Run) -> bool:
    return any(layer.allocation.is_learnt for layer in run.network.modular_layers)
