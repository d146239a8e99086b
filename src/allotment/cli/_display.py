"""What a person sees while runs train: a live bar, or a line now and then."""

import time
from dataclasses import dataclass
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


@dataclass
class _Shown:
    """What is shown of one run group."""

    started: float
    first: int  # rounds that were done before anything was timed
    told: float
    lines: int = 1
    open: float = float("nan")
    task: TaskID | None = None


class Display:
    """Shows the progress of run groups; a context manager, called with news.

    Where several train at once, each has a bar of its own, or a line when it ends and now and then.
    """

    def __init__(self, console: Console, *, several: bool = False) -> None:
        self._console = console
        self._live = console.is_terminal
        self._several = several
        name = "{task.fields[name]}  " if several else ""
        self._bars = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn(f"rounds  {name}{{task.description}}"),
            console=console,
            disable=not self._live,
        )
        self._shown: dict[RunGroup, _Shown] = {}
        self._n_done = 0

    def __enter__(self) -> "Display":
        self._bars.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._bars.stop()

    def __call__(self, group: "RunGroup", progress: "TrainingProgress") -> None:
        n_rounds = group.runs[0].settings.rounds
        if group not in self._shown:
            self._shown[group] = self._begin(group, progress.round, n_rounds)
        shown = self._shown[group]
        if progress.entries:
            shown.open = float(np.mean([entry.share_active for entry in progress.entries]))
        losses = progress.losses[np.isfinite(progress.losses)]
        loss = f"{losses.mean():.3f}" if len(losses) else "none finite"
        state = f"loss {loss}  open {shown.open:.0%}{_left(shown, progress.round, n_rounds)}"
        if shown.task is not None:
            self._bars.update(shown.task, completed=progress.round, description=state)
        if progress.outcomes is not None:
            self._end(group, state)
        elif not self._live and self._is_time(shown, progress.round, n_rounds):
            shown.lines, shown.told = progress.round * N_LINES // n_rounds + 1, time.perf_counter()
            name = f"{group.name}  " if self._several else ""
            self._print(f"  round {progress.round}/{n_rounds}  {name}{state}")

    def say(self, text: str) -> None:
        """Prints a sentence above the bars."""
        say(self._bars.console, text)

    def _begin(self, group: "RunGroup", done: int, n_rounds: int) -> _Shown:
        now = time.perf_counter()
        shown = _Shown(started=now, first=done, told=now)
        if not self._several:
            self._print(said_of(group))
        if self._live:
            shown.task = self._bars.add_task("", total=n_rounds, completed=done, name=group.name)
        return shown

    def _end(self, group: "RunGroup", state: str) -> None:
        self._n_done += 1
        task = self._shown.pop(group).task
        if task is not None:
            self._bars.remove_task(task)
        if self._several:
            self._print(f"{self._n_done} done  {group.name}  {state}")

    def _print(self, text: str) -> None:
        say(self._bars.console, text)

    def _is_time(self, shown: _Shown, done: int, n_rounds: int) -> bool:
        is_far = not self._several and done * N_LINES >= n_rounds * shown.lines
        return is_far or time.perf_counter() > shown.told + PAUSE


def _left(shown: _Shown, done: int, n_rounds: int) -> str:
    """Returns how long the rest takes; nothing where there is none, or none was timed yet."""
    n_timed = done - shown.first
    if n_timed <= 0 or done == n_rounds:
        return ""
    seconds = (time.perf_counter() - shown.started) / n_timed * (n_rounds - done)
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
