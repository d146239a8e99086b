"""The commands that train."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from ..experiments import (
    EXPERIMENTS,
    Experiment,
    Launch,
    experiment_named,
    overridden,
    run_launch,
)
from ..records import read_run
from ._display import Display

if TYPE_CHECKING:
    from ..report import Table


def list_experiments(options: Namespace) -> int:
    """Prints the experiments, their methods, and the data they need."""
    table = RichTable("experiment", "what", "methods", "runs", "data", box=None, pad_edge=False)
    for experiment in EXPERIMENTS.values():
        table.add_row(
            experiment.name,
            experiment.summary,
            " ".join(method.name for method in experiment.methods),
            str(experiment.n_runs),
            " ".join(experiment.data) or "none to download",
        )
    Console().print(table)
    return 0


def run(options: Namespace) -> int:
    """Trains the runs of an experiment and says what came of them."""
    launch = make_launch(options)
    console = Console()
    with Display(console) as display:
        folders = run_launch(launch, display)
    print_results(console, launch.experiment, folders)
    say(console, f"Records: {launch.out}")
    say(console, f"A page of them: allotment report {launch.out} -o report.html")
    return 0


def make_launch(options: Namespace) -> Launch:
    """Returns the launch that the options describe."""
    experiment = experiment_named(options.experiment).on_splits(options.split)
    experiment = overridden(experiment, options.set)
    if options.rounds is not None:
        training = replace(experiment.training, rounds=options.rounds)
        experiment = replace(experiment, training=training)
    methods = experiment.methods
    if options.method:
        methods = tuple(experiment.method(name) for name in dict.fromkeys(options.method))
    return Launch(
        experiment=experiment,
        methods=methods,
        out=options.out or Path("runs") / experiment.name,
        n_runs=experiment.n_runs if options.runs is None else options.runs,
        first_seed=options.first_seed,
        device=resolve_device(options.device),
        data_folder=options.data_dir,
        command=options.command,
    )


def resolve_device(name: str) -> str:
    """Returns a device that is there."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ValueError(f"`device` should be auto, cpu or cuda. Found `device = {name!r}`.")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("`device` should be one that is here. Found 'cuda', but no CUDA device.")
    return name


def print_results(console: Console, experiment: Experiment, folders: list[Path]) -> None:
    """Prints what runs show, in words and as a table."""
    from ..report import brief_table, words  # here, since figures take long to import

    records = [read_run(folder) for folder in folders]
    expectation = experiment.expectation()
    console.print()
    for sentence in words(records, expectation):
        console.print(f"- {sentence}", highlight=False, markup=False)
    console.print()
    console.print(rich_table(brief_table(records, expectation)))


def say(console: Console, text: str) -> None:
    """Prints a line as it is: a path or a command should never be broken."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def rich_table(table: "Table") -> RichTable:
    """Returns a table of the report for the terminal."""
    shown = RichTable(box=None, pad_edge=False)
    for name in table.head:
        shown.add_column(name, no_wrap=name == "Method")
    for row in table.rows:
        shown.add_row(*map(escape, row))  # a task may be called "[b]"
    return shown
