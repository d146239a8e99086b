"""What a person sees while runs train: a live bar, or a line now and then."""

import time
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from ..experiments import Cohort
from ..training import Progress as TrainingProgress

N_LINES = 10  # for each program, when nobody watches live
PAUSE = 60.0  # seconds after which there is a line in any case


class Display:
    """Shows progress of one program after another; a context manager, called with each news."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._bars = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("rounds  loss {task.fields[loss]}  open {task.fields[open]} "),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            disable=not self._live,
        )
        self._task: TaskID | None = None
        self._cohort: Cohort | None = None
        self._started = 0.0
        self._first = 0
        self._told = 0.0
        self._lines = 0
        self._open = float("nan")

    def __enter__(self) -> "Display":
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(self, cohort: Cohort, progress: TrainingProgress) -> None:
        """Shows one piece of news."""
        n_rounds = cohort.runs[0].settings.rounds
        if cohort is not self._cohort:
            self._begin(cohort, progress.round, n_rounds)
        if progress.points:
            self._open = float(np.mean([point.share_active for point in progress.points]))
        losses = progress.losses[np.isfinite(progress.losses)]
        loss = f"{losses.mean():.3f}" if len(losses) else "none finite"
        if self._live and self._task is not None:
            self._bars.update(
                self._task, completed=progress.round, loss=loss, open=f"{self._open:.0%}"
            )
        elif progress.outcomes is None and self._is_time(progress.round, n_rounds):
            self._line(progress.round, n_rounds, loss)

    def say(self, text: str) -> None:
        """Prints a sentence above the bar."""
        self._bars.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _begin(self, cohort: Cohort, done: int, n_rounds: int) -> None:
        self._cohort, self._lines = cohort, 1
        self._started = self._told = time.perf_counter()
        self._first = done  # rounds that were done before anything was timed
        n_runs = len(cohort.runs)
        text = f"{cohort.label} ({n_runs} {'run' if n_runs == 1 else 'runs'})"
        self._bars.console.print(text, highlight=False)
        if self._live:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task = self._bars.add_task("", total=n_rounds, completed=done, loss="-", open="-")

    def _is_time(self, done: int, n_rounds: int) -> bool:
        return done * N_LINES >= n_rounds * self._lines or time.perf_counter() > self._told + PAUSE

    def _line(self, done: int, n_rounds: int, loss: str) -> None:
        self._lines, self._told = done * N_LINES // n_rounds + 1, time.perf_counter()
        n_timed = max(1, done - self._first)
        left = (self._told - self._started) / n_timed * (n_rounds - done)
        self._console.print(
            f"  round {done}/{n_rounds}  loss {loss}  open {self._open:.0%}  {left:.0f} s left",
            highlight=False,
        )
