"""The commands that train."""

import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from ..experiments import (
    Experiment,
    ExperimentFile,
    GroupsFailed,
    Stop,
    Stopped,
    Sweep,
    check_free,
    choose_launcher,
    chosen_device,
    is_file_reference,
    overridden,
    read_experiment,
    run_groups,
    run_sweep,
    varied,
)
from ..paper import EXPERIMENTS, KINDS, experiment_named, experiment_on
from ..records import RecordError, RunRecord, find_copy, read_options, read_run
from ..training import asked_by_signals, plan
from ._display import Display, said_of, say
from ._output import printable
from ._terminal_table import print_table

# Options of a sweep that stay as they began, and those that may be others when it is resumed.
FIXED = (
    *("experiment", "split", "method", "runs", "first_seed"),
    *("group_size", "set", "over", "deterministic"),
)
STATUS = {"SIGINT": 130, "SIGTERM": 143}  # of a process that a signal stopped, as shells count
FREE = ("device", "data_dir", "checkpoint_every", "rounds")


def list_experiments(options: Namespace) -> int:
    """Prints the experiments, their methods, and the data they need."""
    table = RichTable(box=None, pad_edge=False, show_header=False)
    of_kinds = {f"{kind}_{suite}" for kind, (_, suites) in KINDS.items() for suite in suites}
    for experiment in (each for name, each in EXPERIMENTS.items() if name not in of_kinds):
        data = " ".join(experiment.data.sets) or "none to download"
        table.add_row(escape(experiment.name), escape(experiment.summary), style="bold")
        table.add_row("", _methods_text([experiment]))
        table.add_row("", f"runs: {experiment.n_runs} of each   data: {data}")
    for kind, (text, suites) in KINDS.items():
        table.add_row(kind, text, style="bold")
        table.add_row("", _methods_text([experiment_on(kind, suite) for suite in suites]))
        table.add_row("", f"suites, as in --suite NAME: {' '.join(suites)}")
    Console().print(table)
    return 0


def _methods_text(experiments: Sequence[Experiment]) -> str:
    names = dict.fromkeys(method.name for each in experiments for method in each.methods)
    return f"methods: {' '.join(names)}"


def run(options: Namespace) -> int:
    """Trains the runs of an experiment and says what came of them, or how it would train them."""
    stop = Stop(options.minutes)
    sweep = make_sweep(options)
    launcher = choose_launcher(
        sweep.options.get("device", "auto"),
        workers=options.workers,
        ray=options.ray,
        gpus_per_group=options.gpus_per_group,
    )
    console = Console()
    with sweep.file.errors() if sweep.file else nullcontext():
        if options.plan:
            return _print_plans(console, sweep)
        try:
            several = launcher.is_concurrent
            with asked_by_signals(stop.ask), Display(console, several=several) as display:
                folders = run_sweep(sweep, display, say=display.say, stop=stop, launcher=launcher)
        except GroupsFailed as failed:
            name = sweep.file.reference if sweep.file else sweep.experiment.name
            print(f"allotment: {failed}", file=sys.stderr)
            print(f"allotment: To try again: {_resuming(name, sweep.out)}", file=sys.stderr)
            return 1
        except Stopped as stopped:
            return _say_stopped(console, sweep, str(stopped))
    records = print_results(console, sweep.experiment, folders)
    if sweep.experiment.report.over:
        _draw_tradeoff(console, sweep, folders)
    say(console, f"Records: {sweep.out}")
    say(console, f"A page of them: allotment report {sweep.out} -o report.html")
    if not any(record.finished for record in records):
        raise RecordError(
            f"A sweep should have a run that finishes. Found {len(records)} in `{sweep.out}`, all "
            "of which met a loss that was not finite."
        )
    return 0


def _print_plans(console: Console, sweep: Sweep) -> int:
    for number, group in enumerate(run_groups(sweep), start=1):
        say(console, f"Run group {number}: {said_of(group)}")
        say(console, f"{plan(group.runs, device=sweep.device)}\n")
    return 0


def _say_stopped(console: Console, sweep: Sweep, reason: str) -> int:
    """Says how to resume; returns 0 where the time was up, else the status of that signal."""
    experiment = sweep.experiment
    name = sweep.file.reference if sweep.file else experiment.variant_of or experiment.name
    line = f"Stopped ({reason}). To resume: {_resuming(name, sweep.out)}"
    if reason in STATUS:
        print(f"allotment: {line}", file=sys.stderr)
        return STATUS[reason]
    say(console, line)
    return 0


def _resuming(name: str, out: Path) -> str:
    return shlex.join(["allotment", "run", name, "--resume", str(out)])


def make_sweep(options: Namespace) -> Sweep:
    """Returns the sweep that the options describe, or the one that they resume."""
    declared, file = _declared(options.experiment, options.suite)
    chosen = _settled(options, declared.name, file)
    experiment = declared.on_splits(chosen.get("split", []))
    experiment = overridden(experiment, chosen.get("set", []))
    rounds = chosen.get("rounds", experiment.training.rounds)
    experiment = replace(experiment, training=replace(experiment.training, rounds=rounds))
    over, names = chosen.get("over"), list(dict.fromkeys(chosen.get("method", [])))
    if hasattr(options, "over") and over is None:
        raise ValueError(
            "`over` should be a setting and its values, such as penalties.budget=0.1..1.0. "
            "Found none."
        )
    if over is not None:
        experiment, names = varied(experiment, over, names), []
    methods = tuple(experiment.method(name) for name in names) or tuple(experiment.methods)
    check_free(chosen.get("set", []), methods)
    data_folder = chosen.get("data_dir")
    sweep = Sweep(
        experiment=experiment,
        methods=methods,
        out=options.resume or options.out or Path("runs") / experiment.name,
        n_runs=chosen.get("runs"),
        first_seed=chosen.get("first_seed"),
        group_size=chosen.get("group_size"),
        device=chosen_device(chosen.get("device", "auto")),
        data_folder=Path(data_folder) if data_folder else None,
        command=chosen["command"],
        checkpoint_every=chosen.get("checkpoint_every"),
        resume=options.resume is not None,
        deterministic=chosen.get("deterministic", False),
        file=file,
    )
    return replace(sweep, options=_in_full(sweep, chosen))


def _declared(name: str, suite: str | None) -> tuple[Experiment, ExperimentFile | None]:
    """Returns an experiment by its name, or the one that a file defines, with that file."""
    if name in KINDS:
        return experiment_on(name, suite), None
    if suite is not None:
        kinds = " or ".join(f"`{kind}`" for kind in KINDS)
        raise ValueError(f"`suite` should come with {kinds}. Found it with `{name}`.")
    if not is_file_reference(name):
        if (Path(name) / "experiment.py").is_file():
            raise ValueError(
                "`experiment` should be a name that `allotment list` shows, or a Python file. "
                f"Found the folder `{name}`. Did you mean '{Path(name) / 'experiment.py'}'?"
            )
        return experiment_named(name), None
    file = read_experiment(name)
    if file.experiment.name in EXPERIMENTS:
        raise ValueError(
            "An experiment of your own should have another name than those that `allotment list` "
            f"shows. Found `name = {file.experiment.name!r}` in `{file.path}`."
        )
    return file.experiment, file


def _settled(options: Namespace, experiment: str, file: ExperimentFile | None) -> dict[str, Any]:
    """Returns the options given, over those that the sweep in ``options.resume`` began with.

    The command is the one it began with, or would have begun with to have as many rounds.
    """
    given = _typed(options) | {"experiment": experiment}
    folder: Path | None = options.resume
    if folder is None:
        return given | {"command": options.command}
    kept = read_options(folder, {name: given[name] for name in FIXED if name in given})
    kept["group_size"] = kept.pop("together", kept.get("group_size"))  # its name in version 0.1
    for name in FIXED:
        if given.get(name, kept.get(name)) != kept.get(name):
            raise ValueError(
                f"`{name.replace('_', '-')}` should be what the sweep in `{folder}` began with, "
                f"{kept.get(name)!r}. Found {given[name]!r}."
            )
    _check_unchanged(file, kept.get("source", {}), folder)
    if given.get("rounds", kept["rounds"]) != kept["rounds"]:
        before = re.sub(r" --rounds[ =]\S+", "", kept["command"])
        given["command"] = f"{before} --rounds {given['rounds']}"
    return kept | given


def _typed(options: Namespace) -> dict[str, Any]:
    """Returns the options of a sweep that were typed; those that were not are none of its own."""
    every = {name: getattr(options, name, None) for name in (*FIXED, *FREE)}  # `run` has no `over`
    return {name: v for name, v in every.items() if v is not None and v is not False and v != []}


def _check_unchanged(file: ExperimentFile | None, kept: dict[str, str], folder: Path) -> None:
    """Raises where an experiment's file is another than when its sweep began."""
    if file is None or file.sha256 == kept.get("sha256"):
        return
    copy = find_copy(folder, kept.get("sha256", ""))
    said = "."
    if copy is not None:
        before = replace(file, path=copy)
        said = f"; to go on with the copy from then: {_resuming(before.reference, folder)}"
    raise ValueError(
        f"`{file.path}` should be as it was when the sweep in `{folder}` began. "
        f"Found it changed{said}"
    )


def _in_full(sweep: Sweep, chosen: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a sweep in full, so that none has to be given again."""
    fixed = {
        "experiment": sweep.experiment.variant_of or sweep.experiment.name,
        "split": chosen.get("split", []),
        "method": list(dict.fromkeys(m.variant_of or m.name for m in sweep.methods)),
        "runs": sweep.n_runs,
        "first_seed": sweep.first_seed,
        "group_size": sweep.group_size,
        "rounds": sweep.experiment.training.rounds,
        "set": chosen.get("set", []),
        "over": chosen.get("over"),
        "deterministic": sweep.deterministic,
        "command": sweep.command,
    }
    if sweep.file is not None:
        fixed["source"] = sweep.file.described()
    return fixed | {name: chosen[name] for name in FREE if name in chosen and name not in fixed}


def _draw_tradeoff(console: Console, sweep: Sweep, folders: list[Path]) -> None:
    """Prints what each value reaches for what it costs, and draws it beside the runs."""
    from ..report import section, tradeoff_figure, tradeoff_table, write_drawing

    records = [read_run(folder) for folder in folders]
    part = section(records, sweep.experiment.report_spec(records))
    table = tradeoff_table(part)
    if table is None:  # every run failed
        return
    console.print()
    print_table(console, table)
    paths = write_drawing(tradeoff_figure(part), sweep.out / "tradeoff")
    say(console, f"Drawn: {' '.join(map(str, paths))}")


def print_results(console: Console, experiment: Experiment, folders: list[Path]) -> list[RunRecord]:
    """Prints what runs show, as a table, and as sentences unless methods are many; returns them."""
    from ..report import brief_table, summary_text  # here, since figures take long to import

    records = [read_run(folder) for folder in folders]
    spec = experiment.report_spec(records)
    console.print()
    is_short = experiment.search is not None or experiment.variant_of
    for sentence in () if is_short else summary_text(records, spec):
        text = fill(sentence, console.width, initial_indent="- ", subsequent_indent="  ")
        console.print(printable(text), highlight=False, markup=False)
    console.print()
    print_table(console, brief_table(records, spec))
    return records
