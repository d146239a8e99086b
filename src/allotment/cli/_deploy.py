"""The commands that put the network of a run to use."""

from argparse import Namespace
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..deploy import (
    Examples,
    card_of,
    examples_of,
    export,
    predictions,
    read_inputs,
    write_predictions,
)
from ..experiments import Experiment, TaskChoice
from ..modules import TaskNetwork
from ..paper import experiment_of, load, read_table
from ..records import RecordError, RunRecord, read_run
from ..tasks import TablePreprocessing, Task, preprocess


@dataclass(frozen=True)
class _Trained:
    """A finished run with its network, and what that was trained on."""

    record: RunRecord
    experiment: Experiment
    network: TaskNetwork
    table: TablePreprocessing | None
    data_folder: Path | None

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The run's tasks by name, for which data have to be there."""
        header = self.record.header
        choice = TaskChoice(header.condition, header.seed, self.data_folder)
        return {task.name: task for task in self.experiment.make_tasks(choice)}

    def examples(self, names: list[str]) -> Examples:
        return examples_of([self.tasks[name] for name in names])

    @property
    def classifying(self) -> list[str]:
        """The tasks that were measured by their accuracy."""
        checks = [c for c in (self.record.outcome.test, self.record.outcome.validation) if c]
        known = [c.accuracies for c in checks if c.accuracies is not None]
        pairs = zip(self.record.header.task_names, known[0] if known else (), strict=False)
        return [name for name, accuracy in pairs if not np.isnan(accuracy)]


def _trained(options: Namespace) -> _Trained:
    folder: Path = options.run
    if not folder.is_dir():
        raise RecordError(f"`run` should be the folder of a finished run. Found `{folder}`.")
    record = read_run(folder)
    experiment = experiment_of(folder, options.experiment)
    network = load(folder, experiment=experiment)
    for name in options.task:
        network.task_index(name)
    return _Trained(record, experiment, network, read_table(folder), options.data_dir)


def export_network(options: Namespace) -> int:
    """Writes what tasks use of a run's network as a file, and says how near both are."""
    run, path = _trained(options), options.output
    examples = run.examples(options.task)
    made = export(
        run.network,
        options.task,
        path,
        examples.inputs,
        preprocessing=run.table,
        scale=1.0 if run.table else examples.scale,
    )
    inputs = ", ".join(f"{name} ({form})" for name, form in made.inputs.items())
    compared = f"{made.n_real} examples and {made.n_random} random inputs"
    by = "ONNX Runtime" if path.suffix == ".onnx" else "torch"
    print(f"Wrote {path}: {', '.join(made.tasks)}.")
    print(f"Takes {inputs}; N is any number of rows.")
    print(f"Largest difference from the network: {made.difference:.1e}, on {compared}, by {by}.")
    return 0


def predict_file(options: Namespace) -> int:
    """Writes what a run's network predicts for the inputs in a file."""
    run, path = _trained(options), options.output
    if path.suffix not in (".csv", ".npz"):
        raise ValueError(f"`output` should end in .csv or .npz. Found `{path.name}`.")
    inputs = read_inputs(options.inputs, run.table)
    if run.table is None and not isinstance(inputs, dict):
        inputs = preprocess(inputs, None, run.examples(options.task).scale)
    found = predictions(
        run.network,
        inputs,
        options.task,
        preprocessing=run.table,
        classifying=run.classifying,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_predictions(path, found)
    n_rows = len(next(iter(found.values())))
    print(f"Wrote {path}: {n_rows} rows, with {', '.join(found)}.")
    return 0


def write_card(options: Namespace) -> int:
    """Writes the card of one task of a run."""
    if len(options.task) > 1:
        raise ValueError(f"A card should be of one task. Found {options.task}.")
    run, path = _trained(options), options.output
    task = run.tasks[options.task[0]]
    card = card_of(run.record, run.network, task, preprocessing=run.table)
    path.parent.mkdir(parents=True, exist_ok=True)
    card.write(path)
    print(f"Wrote {path}: {card.summary}")
    return 0
