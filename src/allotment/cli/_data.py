"""The commands on data sets."""

from argparse import Namespace

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn
from rich.table import Table

from ..data import check, dataset_named, prepare, status


def list_data(options: Namespace) -> int:
    """Prints which data sets are there."""
    table = Table("data set", "what", "state", "file", box=None, pad_edge=False)
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
        with _Bars(console) as bars:
            path = prepare(name, options.data_dir, progress=bars.show)
        console.print(f"Prepared: {path}", highlight=False)
    return 0


def check_data(options: Namespace) -> int:
    """Verifies the contents of what is there; the status is 1 where something is damaged."""
    console = Console()
    is_sound = True
    for verdict in check(options.data_dir):
        if not verdict.is_present:
            said = "missing"
        elif verdict.fault:
            said, is_sound = f"damaged: {verdict.fault}", False
        else:
            said = "sound"
        console.print(f"{verdict.dataset.name}: {said}", highlight=False)
    return 0 if is_sound else 1


class _Bars:
    """A bar for each file."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=console
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "_Bars":
        self._progress.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._progress.stop()

    def show(self, name: str, done: int, total: int) -> None:
        """Shows how much of a file is there."""
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=total or None)
        self._progress.update(self._tasks[name], completed=done, total=total or None)
