"""The commands that train."""

import os
import shlex
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from ..paper import EXPERIMENTS, experiment_named
from ..experiments import Experiment, Launch, Stop, Stopped, check_free, overridden, run_launch
from ..records import read_run
from ._display import Display, say
from ._options import described, settled
from ._signals import STATUS, asked_by_signals
from ._terminal_table import print_table


def list_experiments(options: Namespace) -> int:
    """Prints the experiments, their methods, and the data they need."""
    table = RichTable(box=None, pad_edge=False, show_header=False)
    for experiment in EXPERIMENTS.values():
        methods = " ".join(method.name for method in experiment.methods)
        data = " ".join(experiment.data) or "none to download"
        table.add_row(escape(experiment.name), escape(experiment.summary), style="bold")
        table.add_row("", f"methods: {methods}")
        table.add_row("", f"runs: {experiment.n_runs} of each   data: {data}")
    Console().print(table)
    return 0


def run(options: Namespace) -> int:
    """Trains the runs of an experiment and says what came of them."""
    stop = Stop(options.minutes)
    launch = make_launch(options)
    console = Console()
    try:
        with asked_by_signals(stop), Display(console) as display:
            folders = run_launch(launch, display, say=display.say, stop=stop)
    except Stopped as stopped:
        return _say_stopped(console, launch, str(stopped))
    print_results(console, launch.experiment, folders)
    say(console, f"Records: {launch.out}")
    say(console, f"A page of them: allotment report {launch.out} -o report.html")
    return 0


def _say_stopped(console: Console, launch: Launch, reason: str) -> int:
    """Says how to go on; returns 0 where the time was up, else the status of that signal."""
    command = shlex.join(["allotment", "run", launch.experiment.name, "--resume", str(launch.out)])
    line = f"Stopped ({reason}). To go on: {command}"
    if reason in STATUS:
        print(f"allotment: {line}", file=sys.stderr)
        return STATUS[reason]
    say(console, line)
    return 0


def make_launch(options: Namespace) -> Launch:
    """Returns the launch that the options describe, or the one that they have go on."""
    chosen = settled(options)
    experiment = experiment_named(chosen["experiment"]).on_splits(chosen.get("split", []))
    experiment = overridden(experiment, chosen.get("set", []))
    rounds = chosen.get("rounds", experiment.training.rounds)
    experiment = replace(experiment, training=replace(experiment.training, rounds=rounds))
    names = chosen.get("method") or [method.name for method in experiment.methods]
    methods = tuple(experiment.method(name) for name in dict.fromkeys(names))
    check_free(chosen.get("set", []), methods)
    data_folder = chosen.get("data_dir")
    launch = Launch(
        experiment=experiment,
        methods=methods,
        out=options.resume or options.out or Path("runs") / experiment.name,
        n_runs=chosen.get("runs", experiment.n_runs),
        first_seed=chosen.get("first_seed", 0),
        together=chosen.get("together"),
        device=resolve_device(chosen.get("device", "auto")),
        data_folder=Path(data_folder) if data_folder else None,
        command=chosen["command"],
        checkpoint_every=chosen.get("checkpoint_every"),
        resume=options.resume is not None,
        deterministic=chosen.get("deterministic", False),
    )
    return replace(launch, options=described(launch, chosen))


def resolve_device(name: str) -> str:
    """Returns a device that is there."""
    # Read when the device is first used: how many streams of a program really run side by side.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
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
        text = fill(sentence, console.width, initial_indent="- ", subsequent_indent="  ")
        console.print(text, highlight=False, markup=False)
    console.print()
    print_table(console, brief_table(records, expectation))
