"""What a person sees while runs train: a live bar, or a line now and then."""

import time
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from ._output import printable

if TYPE_CHECKING:  # both are slow to import, and `data` needs neither
    from ..experiments import RunGroup
    from ..training import Progress as TrainingProgress

N_LINES = 10  # for each run group, when nobody watches live
PAUSE = 60.0  # seconds after which there is a line in any case


class Display:
    """Shows the progress of one run group after another; a context manager, called with news."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._bars = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("rounds  {task.description}"),
            console=console,
            disable=not self._live,
        )
        self._task: TaskID | None = None
        self._group: RunGroup | None = None
        self._started = 0.0
        self._first = 0
        self._told = 0.0
        self._lines = 0
        self._open = float("nan")

    def __enter__(self) -> "Display":
        self._bars.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._bars.stop()

    def __call__(self, group: "RunGroup", progress: "TrainingProgress") -> None:
        n_rounds = group.runs[0].settings.rounds
        if group is not self._group:
            self._begin(group, progress.round, n_rounds)
        if progress.entries:
            self._open = float(np.mean([entry.share_active for entry in progress.entries]))
        losses = progress.losses[np.isfinite(progress.losses)]
        loss = f"{losses.mean():.3f}" if len(losses) else "none finite"
        state = f"loss {loss}  open {self._open:.0%}{self._left(progress.round, n_rounds)}"
        if self._live and self._task is not None:
            self._bars.update(self._task, completed=progress.round, description=state)
        elif progress.outcomes is None and self._is_time(progress.round, n_rounds):
            self._lines, self._told = progress.round * N_LINES // n_rounds + 1, time.perf_counter()
            self._console.print(f"  round {progress.round}/{n_rounds}  {state}", highlight=False)

    def say(self, text: str) -> None:
        """Prints a sentence above the bar."""
        say(self._bars.console, text)

    def _begin(self, group: "RunGroup", done: int, n_rounds: int) -> None:
        self._group, self._lines = group, 1
        self._started = self._told = time.perf_counter()
        self._first = done  # rounds that were done before anything was timed
        say(self._bars.console, said_of(group))
        if self._live:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task = self._bars.add_task("", total=n_rounds, completed=done)

    def _is_time(self, done: int, n_rounds: int) -> bool:
        return done * N_LINES >= n_rounds * self._lines or time.perf_counter() > self._told + PAUSE

    def _left(self, done: int, n_rounds: int) -> str:
        """Returns how long the rest takes; nothing where there is none, or none was timed yet."""
        n_timed = done - self._first
        if n_timed == 0 or done == n_rounds:
            return ""
        seconds = (time.perf_counter() - self._started) / n_timed * (n_rounds - done)
        return f"  {duration(seconds)} left"


def said_of(group: "RunGroup") -> str:
    """Returns what a run group is called, and how many runs it has."""
    return f"{group.label} ({len(group.runs)} run{'s' * (len(group.runs) > 1)})"


def duration(seconds: float) -> str:
    """Returns a time in the unit that suits it.

    >>> [duration(seconds) for seconds in (0.2, 89.6, 90, 3_600, 20_000)]
    ['under 1 s', '90 s', '2 min', '60 min', '5.6 h']
    """
    if seconds < 1:
        return "under 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"


def say(console: Console, text: str) -> None:
    """Prints a line as it is: a path or a command should never be broken."""
    console.print(printable(text), highlight=False, markup=False, soft_wrap=True)
