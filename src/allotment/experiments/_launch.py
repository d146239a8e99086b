"""From a declaration to run folders."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from .._checks import check_at_least
from .._progress import RunHeader
from ..records import RunWriter, check_new, open_runs, run_folder
from ..tasks import Task
from ..training import Progress, Run, TrainingSettings, train
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
    device: str = "cpu"
    data_folder: Path | None = None
    command: str = ""

    def __post_init__(self) -> None:
        check_at_least("runs", self.n_runs, 1)
        check_at_least("first-seed", self.first_seed, 0)

    @property
    def seeds(self) -> range:
        """The seeds of the runs."""
        return range(self.first_seed, self.first_seed + self.n_runs)


@dataclass(frozen=True)
class Cohort:
    """Runs that train together as one program."""

    label: str
    runs: list[Run]
    headers: list[RunHeader]


def cohorts(launch: Launch) -> Iterator[Cohort]:
    """Yields the runs of a launch, those that can share a program together.

    Methods with a fixed allocation go through one program, and methods that learn it through
    another: within each, only numbers differ.
    """
    experiment = launch.experiment
    for condition in experiment.conditions:
        tasks = _tasks_by_seed(launch, condition)
        for is_learnt in (False, True):
            methods = [method for method in launch.methods if method.is_learnt == is_learnt]
            if methods:
                yield _cohort(launch, condition, methods, tasks)


def run_launch(launch: Launch, on_progress: Callable[[Cohort, Progress], None]) -> list[Path]:
    """Makes all runs of a launch and returns their folders.

    When it is stopped, the runs under way are marked as interrupted.
    """
    prepared = list(cohorts(launch))
    check_new(run_folder(launch.out, h) for cohort in prepared for h in cohort.headers)
    folders = []
    for cohort in prepared:
        writers = open_runs(launch.out, cohort.headers, device=device_name(launch.device))
        try:
            _record(cohort, writers, launch, on_progress)
        except BaseException as error:
            for writer in writers:
                writer.interrupt(type(error).__name__)
            raise
        folders += [writer.folder for writer in writers]
    return folders


def _record(
    cohort: Cohort,
    writers: Sequence[RunWriter],
    launch: Launch,
    on_progress: Callable[[Cohort, Progress], None],
) -> None:
    n_last = launch.experiment.n_last_rounds
    for progress in train(cohort.runs, device=launch.device, n_last_rounds=n_last):
        for writer, point in zip(writers, progress.points or [], strict=False):
            writer.add(point)
        for writer, outcome in zip(writers, progress.outcomes or [], strict=False):
            writer.close(outcome)
        on_progress(cohort, progress)


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
    launch: Launch, condition: str, methods: list[Method], tasks: dict[int, list[Task]]
) -> Cohort:
    experiment = launch.experiment
    runs, headers = [], []
    for method in methods:
        budget = experiment.training.budget if method.budget is None else method.budget
        settings: TrainingSettings = replace(experiment.training, budget=budget)
        for seed in launch.seeds:
            outputs = {task.name: task.n_outputs for task in tasks[seed]}
            network = experiment.build_network(method, outputs, seed)
            runs.append(Run(network, tasks[seed], seed, settings))
            headers.append(
                experiment.header(
                    method, condition, seed, network, tasks[seed], settings, launch.command
                )
            )
    label = " + ".join(method.label for method in methods)
    return Cohort(f"{condition}  {label}".strip(), runs, headers)
