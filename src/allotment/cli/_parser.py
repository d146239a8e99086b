"""The commands and their options."""

import argparse
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from .. import __version__
from .._checks import nearest
from ._output import printable

_FOLDER: dict[str, Any] = {"type": Path, "metavar": "DIR"}
_SEVERAL: dict[str, Any] = {"action": "append", "default": []}
# As `paper` has them, which takes long to import.
_SUITES = ("two_pairs", "digits", "mnist", "census", "clusters", "omniglot")
_DATA = "folder of the data sets (default: $ALLOTMENT_DATA, or else the user's cache)"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        said = printable(message).replace("\n", " ")
        self.exit(2, f"{self.prog}: {said} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Asks which command was meant, where one is not known."""
        if action.choices is not None and value not in action.choices:
            known = ", ".join(map(repr, action.choices))
            meant = nearest(value, action.choices)
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r} (choose from {known}).{meant}"
            )


_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands."""
    parser = _Parser(
        prog="allotment",
        description="Learns which parts of a network each task uses, while it learns the network.",
        epilog="`allotment COMMAND --help` says what a command takes.",
    )
    parser.add_argument(
        "--version", action="version", version=f"allotment {__version__}", help="show the version"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    _add(commands, "list", "_run.list_experiments", "show the experiments, their methods and data")
    command = _add(commands, "init", "_init.init", "write a project of your own that runs as it is")
    command.add_argument("folder", type=Path, metavar="NAME", help="a new or empty folder")
    _add_run(_add(commands, "run", "_run.run", "train the runs of an experiment"))
    text = "train a method at several values of a setting, and draw what each reaches and costs"
    command = _add(commands, "sweep", "_run.run", text)
    over = (
        "such as penalties.budget=0.1..1.0 (ten values), =0.1..1.0:4 or =0.1,0.5,1.0 "
        "(default: that of the sweep which is resumed)"
    )
    command.add_argument("--over", metavar="NAME=VALUES", help=over)
    _add_run(command)
    _add_readers(commands)
    _add_deployment(commands)
    _add_data(commands)
    command = _add(commands, "demo", "_demo.demo", "train on bundled data and leave a report")
    folder = "a new folder for both (default: runs/demo-1, runs/demo-2, ...)"
    command.add_argument("--out", **_FOLDER, help=folder)
    return parser


def _add(commands: _Commands, name: str, action: str, text: str) -> _Parser:
    """Adds a command; its text stands in the list of commands and above its own options.

    Its action is a function of a file in this folder, which is imported only when it is called.
    """
    command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    command.set_defaults(action=action)
    return command


def _add_run(command: _Parser) -> None:
    experiment = (
        "a name that `list` shows, `comparison`, `causes` or `remedy` with --suite, or a Python "
        "file: experiment.py, experiment.py:NAME"
    )
    command.add_argument("experiment", metavar="EXPERIMENT", help=experiment)
    what = command.add_argument_group("what to train")
    suite = f"of such an experiment: {', '.join(_SUITES)} (default: none)"
    what.add_argument("--suite", metavar="NAME", help=suite)
    method = "a method; repeatable (default: all)"
    what.add_argument("--method", action="append", metavar="NAME", help=method)
    split = "a split of the data, where there are several; repeatable (default: the first)"
    what.add_argument("--split", **_SEVERAL, metavar="NAME", help=split)
    n_runs = "runs of each method (default: as `list` shows)"
    what.add_argument("--runs", type=int, metavar="N", help=n_runs)
    seed = "seed of the first run; the next has S + 1 (default: as declared, mostly 0)"
    what.add_argument("--first-seed", type=int, metavar="S", help=seed)
    rounds = "rounds of each run (default: as declared)"
    what.add_argument("--rounds", type=int, metavar="K", help=rounds)
    setting = (
        "another value for a setting, such as batch_size=32, optimization.learning_rate=0.01 or "
        "allocation.p_init=0.9; repeatable (default: all as declared)"
    )
    what.add_argument("--set", **_SEVERAL, metavar="NAME=VALUE", help=setting)
    where = command.add_argument_group("where and how")
    place = where.add_mutually_exclusive_group()
    place.add_argument("--out", **_FOLDER, help="new runs go here (default: runs/EXPERIMENT)")
    resume = "resume the sweep in DIR, which was stopped; needs no other option, and takes --rounds"
    place.add_argument("--resume", **_FOLDER, help=resume)
    device = "auto, cpu, cuda or cuda:N (default: auto, which is cuda where there is one)"
    where.add_argument("--device", metavar="NAME", help=device)
    where.add_argument("--data-dir", **_FOLDER, help=_DATA)
    size = "the most runs in a run group, which trains as one program (default: all that can)"
    where.add_argument("--group-size", type=int, metavar="N", help=size)
    bits = "the same bits each time on a GPU too, if slower (default: off)"
    where.add_argument("--deterministic", action="store_true", help=bits)
    minutes = "stop after so long, to be resumed (default: at the end)"
    where.add_argument("--minutes", type=float, metavar="M", help=minutes)
    every = "rounds between checkpoints (default: one a minute)"
    where.add_argument("--checkpoint-every", type=int, metavar="K", help=every)
    workers = (
        "processes on this machine that train run groups side by side, or auto: one for each GPU, "
        "or else for each core (default: one for each GPU, or else one)"
    )
    where.add_argument("--workers", type=_number_or_text, metavar="N", help=workers)
    ray = "train run groups on a Ray cluster: auto, which is the one here, or HOST:PORT"
    where.add_argument("--ray", metavar="ADDRESS", help=f"{ray} (default: none)")
    share = "of a GPU for each run group, on a Ray cluster (default: 1 where it has GPUs)"
    where.add_argument("--gpus-per-group", type=float, metavar="G", help=share)
    plan = "print how each run group would be computed, and train nothing (default: off)"
    where.add_argument("--plan", action="store_true", help=plan)


def _number_or_text(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def _add_readers(commands: _Commands) -> None:
    """Adds the commands that read what runs have left."""
    runs = "folder of a run, or with runs in it at any depth"
    command = _add(commands, "report", "_pages.report", "make one HTML page of runs")
    command.add_argument("runs", **_FOLDER, nargs="+", help=runs)
    page: dict[str, Any] = {"type": Path, "metavar": "FILE", "default": Path("report.html")}
    command.add_argument("-o", "--output", **page, help="the page (default: %(default)s)")
    text = "show and draw which tasks belong together"
    command = _add(commands, "embeddings", "_pages.show_embeddings", text)
    command.add_argument("runs", **_FOLDER, nargs="+", help=runs)
    figures = "folder for the figures (default: %(default)s)"
    command.add_argument("-o", "--output", **_FOLDER, default=Path("embeddings"), help=figures)
    command = _add(commands, "keep", "_pages.keep_runs", "add finished runs to the kept results")
    command.add_argument("runs", **_FOLDER, nargs="+", help=runs)
    results = "folder of the kept results (default: %(default)s)"
    command.add_argument("--results", **_FOLDER, default=Path("results"), help=results)
    command = _add(commands, "docs", "_pages.docs", "write docs/results.md from the kept results")
    root = "the repository, with results/ in it (default: this folder)"
    command.add_argument("--root", **_FOLDER, default=Path(), help=root)


def _add_deployment(commands: _Commands) -> None:
    """Adds the commands that put the network of a run to use."""
    text = "write what tasks use of a run's network as an ONNX or pt2 file, and compare both"
    command = _add(commands, "export", "_deploy.export_network", text)
    _add_run_and_tasks(command)
    file: dict[str, Any] = {"type": Path, "metavar": "FILE", "required": True}
    command.add_argument("-o", "--output", **file, help="ends in .onnx or .pt2")
    text = "predict with a run's network, from a CSV or npz file to another"
    command = _add(commands, "predict", "_deploy.predict_file", text)
    _add_run_and_tasks(command)
    inputs = "columns of the table that it learnt from, or arrays of inputs; ends in .csv or .npz"
    command.add_argument("inputs", type=Path, metavar="INPUTS", help=inputs)
    outputs = "classes, their probabilities, numbers; ends in .csv or .npz"
    command.add_argument("-o", "--output", **file, help=outputs)

    text = "describe a task's network: its cost, its results, what it shares, where it came from"
    command = _add(commands, "card", "_deploy.write_card", text)
    _add_run_and_tasks(command)
    command.add_argument("-o", "--output", **file, help="ends in .html or .md")


def _add_run_and_tasks(command: _Parser) -> None:
    command.add_argument("run", **_FOLDER, help="folder of a finished run")
    task = "a task's name; repeatable"
    command.add_argument("--task", **_SEVERAL, metavar="NAME", required=True, help=task)
    experiment = "the file of an experiment of your own, which is run (default: none)"
    command.add_argument("--experiment", metavar="FILE", help=experiment)
    command.add_argument("--data-dir", **_FOLDER, help=_DATA)


def _add_data(commands: _Commands) -> None:
    text = "list, prepare or check data sets"
    data = commands.add_parser("data", help=text, description=f"{text.capitalize()}.")
    actions = data.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
    _add(actions, "list", "_data.list_data", "show which data sets are there")
    text = "download, verify and prepare data sets"
    command = _add(actions, "prepare", "_data.prepare_data", text)
    command.add_argument("names", nargs="+", metavar="NAME", help="a name that `data list` shows")
    text = "verify data sets; the status is 1 if one is missing or bad"
    command = _add(actions, "check", "_data.check_data", text)
    names = "a name that `data list` shows (default: all)"
    command.add_argument("names", nargs="*", metavar="NAME", help=names)
    for command in actions.choices.values():
        command.add_argument("--data-dir", **_FOLDER, help=_DATA)
