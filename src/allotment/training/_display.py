"""A bar that shows how far a training is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ._train import Progress


@contextmanager
def bar(n_rounds: int, show: bool | None) -> Iterator[Callable[["Progress"], None]]:
    """Gives a function that shows progress: in a terminal or a notebook, or as ``show`` says."""
    wanted = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars
    except ImportError:  # training needs torch and NumPy alone
        wanted = False
    if not wanted:
        yield lambda progress: None
        return
    columns = (
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("rounds  {task.description}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        number = bars.add_task("", total=n_rounds)

        def update(progress: "Progress") -> None:
            losses = progress.losses[np.isfinite(progress.losses)]
            told = f"loss {losses.mean():.4g}" if len(losses) else "no finite loss"
            bars.update(number, completed=progress.round, description=told)

        yield update
