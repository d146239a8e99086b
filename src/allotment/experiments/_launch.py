"""From a declaration to runs."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .._checks import check_at_least
from .._schema import RunHeader
from ..settings import ROUNDS_PER_BLOCK
from ..tasks import Task
from ..training import Run
from ._experiment import Experiment, TaskChoice
from ._methods import Method


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Which runs of an experiment to make, and where."""

    experiment: Experiment
    methods: tuple[Method, ...]
    out: Path
    n_runs: int
    first_seed: int = 0
    together: int | None = None  # the most runs of one program; None: as many as can be
    device: str = "cpu"
    data_folder: Path | None = None
    command: str = ""
    checkpoint_every: int | None = None  # rounds between checkpoints; None: by the clock
    resume: bool = False  # go on with runs that are there
    deterministic: bool = False  # on a GPU: the same bits each time, if slower
    options: dict[str, Any] = field(default_factory=dict)  # to be kept beside the runs

    def __post_init__(self) -> None:
        check_at_least("runs", self.n_runs, 1)
        check_at_least("first-seed", self.first_seed, 0)
        if self.together is not None:
            check_at_least("together", self.together, 1)
        if self.checkpoint_every is not None:
            check_at_least("checkpoint-every", self.checkpoint_every, 1)
            if self.checkpoint_every % ROUNDS_PER_BLOCK:
                raise ValueError(
                    f"`checkpoint-every` should be a multiple of {ROUNDS_PER_BLOCK} rounds. "
                    f"Found `checkpoint-every = {self.checkpoint_every}`."
                )

    @property
    def seeds(self) -> range:
        """The seeds of the runs."""
        return range(self.first_seed, self.first_seed + self.n_runs)


@dataclass(frozen=True, eq=False)
class Cohort:
    """Runs that train together as one program."""

    label: str
    runs: list[Run]
    headers: list[RunHeader]


def cohorts(launch: Launch) -> Iterator[Cohort]:
    """Yields the runs of a launch, those that can share a program together.

    Methods with a fixed allocation go through one program, and methods that learn it through
    another: within each, only numbers differ. Methods with settings of their own that a program
    cannot hold beside others have one to themselves. ``launch.together`` divides them further.
    """
    experiment = launch.experiment
    for condition in experiment.conditions:
        tasks = _tasks_by_seed(launch, condition)
        programs: dict[Hashable, list[Method]] = {}
        for method in sorted(launch.methods, key=lambda method: method.is_learnt):
            common = method.settings(experiment.training).in_common()
            programs.setdefault((method.is_learnt, common), []).append(method)
        for methods in programs.values():
            runs = [(method, seed) for method in methods for seed in launch.seeds]
            size = launch.together or len(runs)
            for first in range(0, len(runs), size):
                yield _cohort(launch, condition, runs[first : first + size], tasks)


def device_name(device: str) -> str:
    """Returns what a device is called, for the record."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return f"CPU, {torch.get_num_threads()} threads"


def _tasks_by_seed(launch: Launch, condition: str) -> dict[int, list[Task]]:
    experiment = launch.experiment

    def tasks(seed: int) -> list[Task]:
        return experiment.tasks(TaskChoice(condition, seed, launch.data_folder))

    if experiment.tasks_differ:
        return {seed: tasks(seed) for seed in launch.seeds}
    return dict.fromkeys(launch.seeds, tasks(launch.first_seed))


def _cohort(
    launch: Launch,
    condition: str,
    members: list[tuple[Method, int]],
    tasks: dict[int, list[Task]],
) -> Cohort:
    experiment = launch.experiment
    runs, headers = [], []
    for method, seed in members:
        settings = method.settings(experiment.training)
        outputs = {task.name: task.n_outputs for task in tasks[seed]}
        network = experiment.build_network(method, outputs, seed)
        runs.append(Run(network, tasks[seed], seed, settings))
        headers.append(
            experiment.header(
                method, condition, seed, network, tasks[seed], settings, launch.command
            )
        )
    label = " + ".join(dict.fromkeys(method.label for method, _ in members))
    return Cohort(f"{condition}  {label}".strip(), runs, headers)
