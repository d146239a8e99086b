"""The commands on data sets."""

from argparse import Namespace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn
from rich.table import Table

from ..data import DATASETS, check, dataset_named, prepare, status
from ._display import say


def list_data(options: Namespace) -> int:
    """Prints which data sets are there."""
    table = Table("data set", "what", "state", box=None, pad_edge=False)
    table.add_column("file", overflow="fold")
    for each in status(options.data_dir):
        state = f"{each.n_bytes / 2**20:.1f} MiB" if each.n_bytes is not None else "missing"
        table.add_row(each.dataset.name, each.dataset.description, state, str(each.path))
    Console().print(table)
    return 0


def prepare_data(options: Namespace) -> int:
    """Downloads, verifies and prepares data sets."""
    for name in options.names:
        dataset_named(name)  # an unknown name is answered before anything is fetched
    console = Console()
    for name in options.names:
        say(console, f"Prepared: {_prepared(name, options.data_dir, console)}")
    return 0


def _prepared(name: str, folder: Path | None, console: Console) -> Path:
    """Prepares a data set, with a bar for each file on the way, and returns its path."""
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn()
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console) as bars:

        def show(file: str, done: int, total: int) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total or None)
            bars.update(tasks[file], completed=done, total=total or None)

        return prepare(name, folder, progress=show)


def check_data(options: Namespace) -> int:
    """Verifies the contents of data sets; the status is 1 where one is missing or damaged."""
    datasets = [dataset_named(name) for name in options.names] or list(DATASETS.values())
    console = Console()
    verdicts = check(options.data_dir, datasets)
    for verdict in verdicts:
        state = "damaged" if verdict.is_present else "missing"
        said = f"{state}: {verdict.fault}" if verdict.fault else "sound"
        say(console, f"{verdict.dataset.name}: {said}")
    return 1 if any(verdict.fault for verdict in verdicts) else 0
