"""The commands and their options."""

import argparse
from pathlib import Path
from typing import NoReturn

from ._data import check_data, list_data, prepare_data
from ._demo import demo
from ._embeddings import show_embeddings
from ._pages import docs, keep_runs, report
from ._run import list_experiments, run


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands."""
    parser = _Parser(
        prog="allotment",
        description="Learns which parts of a network each task uses, while it learns the network.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    command = commands.add_parser("list", help="experiments, methods, and the data they need")
    command.set_defaults(action=list_experiments)
    _add_run(commands)
    command = commands.add_parser("report", help="one HTML page from run folders")
    command.add_argument("runs", type=Path, help="folder with runs in it, at any depth")
    command.add_argument("-o", "--output", type=Path, default=Path("report.html"))
    command.set_defaults(action=report)
    command = commands.add_parser(
        "embeddings", help="which tasks belong together, and figures of it"
    )
    command.add_argument("runs", type=Path, nargs="+", help="run folders, or folders with runs")
    command.add_argument("-o", "--output", type=Path, default=Path("embeddings"), metavar="FOLDER")
    command.set_defaults(action=show_embeddings)
    command = commands.add_parser("keep", help="add finished runs to the kept results")
    command.add_argument("runs", type=Path, nargs="+")
    command.add_argument("--results", type=Path, default=Path("results"))
    command.set_defaults(action=keep_runs)
    command = commands.add_parser("docs", help="write docs/results.md from the kept results")
    command.add_argument("--root", type=Path, default=Path(), help="the repository")
    command.set_defaults(action=docs)
    _add_data(commands)
    command = commands.add_parser("demo", help="train on bundled data and leave a report")
    command.add_argument("--out", type=Path, default=None, help="a new folder")
    command.set_defaults(action=demo)
    return parser


def _add_run(commands: "argparse._SubParsersAction[_Parser]") -> None:
    command = commands.add_parser("run", help="train the runs of an experiment")
    command.add_argument("experiment", metavar="EXPERIMENT", help="see `allotment list`")
    command.add_argument("--method", action="append", metavar="M", help="default: all; repeatable")
    command.add_argument(
        "--split",
        action="append",
        default=[],
        metavar="NAME",
        help="default: the first; repeatable",
    )
    command.add_argument("--runs", type=int, metavar="N", help="default: as declared")
    command.add_argument("--first-seed", type=int, metavar="S", help="default: 0")
    command.add_argument(
        "--together", type=int, metavar="N", help="the most runs at a time; default: all that can"
    )
    command.add_argument("--rounds", type=int, metavar="K", help="default: as declared")
    command.add_argument("--device", help="auto (default), cpu or cuda")
    command.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="any setting, by name"
    )
    place = command.add_mutually_exclusive_group()
    place.add_argument("--out", type=Path, metavar="DIR", help="default: runs/EXPERIMENT")
    place.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with what was stopped in DIR"
    )
    command.add_argument("--data-dir", type=Path, metavar="DIR", help="default: $ALLOTMENT_DATA")
    command.add_argument(
        "--minutes", type=float, metavar="M", help="stop after so long, to be resumed; status 0"
    )
    command.add_argument(
        "--checkpoint-every", type=int, metavar="ROUNDS", help="default: once a minute"
    )
    command.add_argument(
        "--deterministic", action="store_true", help="the same bits each time on a GPU too"
    )
    command.set_defaults(action=run)


def _add_data(commands: "argparse._SubParsersAction[_Parser]") -> None:
    data = commands.add_parser("data", help="list, prepare or check data sets")
    actions = data.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
    for name, action, text in (
        ("list", list_data, "what is there"),
        ("prepare", prepare_data, "download, verify and prepare data sets"),
        ("check", check_data, "verify the contents of what is there"),
    ):
        command = actions.add_parser(name, help=text)
        if name == "prepare":
            command.add_argument("names", nargs="+", metavar="NAME")
        command.add_argument("--data-dir", type=Path, metavar="DIR")
        command.set_defaults(action=action)
