"""A sweep from its first run group to its last, and from a checkpoint where it was stopped."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ..records import (
    check_new,
    check_same,
    close_options,
    remove_options,
    rounds_of,
    write_copy,
    write_declaration,
    write_options,
)
from ..training import Progress, TrainingState
from ._recording import Recording, checkpoints_of, folders_of
from ._search import with_chosen_rates
from ._stop import Stop, Stopped
from ._sweep import RunGroup, Sweep, run_groups
from .launchers import Failure, InTurn, Launcher, Message

_Hear: TypeAlias = Callable[[RunGroup, Progress], None]
_Say: TypeAlias = Callable[[str], None]


class GroupsFailed(Exception):  # noqa: N818  (it tells of errors)
    """Run groups that an exception ended in another process; its text names them."""


def run_sweep(
    sweep: Sweep,
    on_progress: _Hear = lambda group, progress: None,
    *,
    say: _Say = lambda text: None,
    stop: Stop | None = None,
    launcher: Launcher | None = None,
) -> list[Path]:
    """Makes all runs of a sweep and returns their folders.

    When it is stopped, the runs under way are marked as interrupted; asked by ``stop``, it first
    writes a checkpoint and then raises ``Stopped``. With ``sweep.resume``, finished run groups are
    left as they are, and one that was under way goes on. Its rounds may be others than before,
    unless its steps depend on them.

    ``launcher`` says where run groups train; None: here, one after another. What they leave is the
    same, up to times and environments. Records are written by this process alone.

    Where the experiment has a `search`, learning rates are chosen first.

    Args:
        sweep: Which runs to make, and where.
        on_progress: Called with the run group and its progress, every ten rounds.
        say: Called with a sentence for people, now and then.
        stop: Tells when to stop; None: never.
        launcher: Where run groups train; None: here, one after another.
    """
    stop, launcher = stop or Stop(), launcher or InTurn()
    if sweep.experiment.search is not None:
        if sweep.options:  # before the search, so that it can be resumed
            write_options(sweep.out, sweep.options)
        sweep = with_chosen_rates(
            sweep, lambda s: run_sweep(s, on_progress, say=say, stop=stop, launcher=launcher)
        )
    groups = list(run_groups(sweep))
    folders = [folder for group in groups for folder in folders_of(group, sweep)]
    if sweep.resume:
        for group in groups:
            _check_resumable(group, sweep, say)
    else:
        check_new(folders)
    _describe(sweep, groups[0])
    with _closing_options(sweep, folders):
        left = _left(groups, sweep, say)
        if left:
            _record(left, sweep, launcher, stop, on_progress, say)
    return folders


def _record(
    groups: list[RunGroup], sweep: Sweep, launcher: Launcher, stop: Stop, hear: _Hear, say: _Say
) -> None:
    """Trains run groups and records their runs; raises where some did not reach their end."""
    book = _Book(sweep, say, names_groups=launcher.is_concurrent)
    with closing(launcher.messages(sweep, groups, book.start, stop)) as messages:
        try:
            for group, message in messages:
                book.add(group, message)
                if isinstance(message, Progress):
                    hear(group, message)
        except BaseException as error:
            book.interrupt(type(error).__name__)
            raise
    if book.failures:
        failed = GroupsFailed(_said_of(book.failures))
        failed.add_note(book.failures[0][1].trace)  # which a traceback shows
        raise failed
    if not all(book.is_finished(group) for group in groups):
        book.interrupt(stop.reason)
        raise Stopped(stop.reason)


class _Book:
    """The recordings of run groups that may train at the same time."""

    def __init__(self, sweep: Sweep, say: _Say, *, names_groups: bool) -> None:
        self._sweep, self._say, self._names_groups = sweep, say, names_groups
        self._warned: set[str] = set()
        self._recordings: dict[RunGroup, Recording] = {}
        self.failures: list[tuple[RunGroup, Failure]] = []

    def start(self, group: RunGroup) -> TrainingState | None:
        """Returns the state from which a group goes on, whose worker may have been lost before."""
        before = self._recordings.get(group)
        if before is not None:
            self._tell(group, "its worker was lost, and another goes on from the last checkpoint.")
            before.interrupt("worker lost")
        self._recordings[group] = recording = Recording(
            group,
            self._sweep,
            resumes=self._sweep.resume or before is not None,
            say=partial(self._tell, group),
        )
        return recording.state

    def add(self, group: RunGroup, message: Message) -> None:
        match message:
            case str():
                if message not in self._warned:  # as others do that train the same way
                    self._warned.add(message)
                    self._tell(group, message)
            case Failure():
                self.failures.append((group, message))
                self._recordings[group].interrupt(message.kind)
                self._say(_said_of([(group, message)]))
            case _:
                self._recordings[group].add(message)

    def is_finished(self, group: RunGroup) -> bool:
        return group in self._recordings and self._recordings[group].is_finished

    def interrupt(self, reason: str) -> None:
        for recording in self._recordings.values():
            recording.interrupt(reason)

    def _tell(self, group: RunGroup, text: str) -> None:
        self._say(f"{group.name}: {text}" if self._names_groups else text)


def _said_of(failures: list[tuple[RunGroup, Failure]]) -> str:
    group, first = failures[0]
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return (
        f"A run group should train to its end. Found {first.kind} in {group.name}{more}: "
        f"{first.text}"
    )


def _describe(sweep: Sweep, first: RunGroup) -> None:
    """Writes what is kept of a sweep beside its runs."""
    if sweep.options:
        write_options(sweep.out, sweep.options)
    if sweep.file is not None:
        write_copy(sweep.out, sweep.file.content)
    if sweep.is_own or sweep.file is not None or sweep.experiment.variant_of:
        spec = sweep.experiment.report_spec(measure=first.headers[0].measure)
        write_declaration(sweep.out, spec.experiment, spec.to_record())


@contextmanager
def _closing_options(sweep: Sweep, folders: Sequence[Path]) -> Iterator[None]:
    """Closes the options of a sweep that is over; where it has left no run, removes them."""
    try:
        yield
    except Exception:
        if sweep.options and not any(folder.exists() for folder in folders):
            remove_options(sweep.out, sweep.options)
        raise
    if sweep.options:
        close_options(sweep.out, sweep.options)


def _is_finished(group: RunGroup, sweep: Sweep) -> bool:
    return all((folder / "summary.json").exists() for folder in folders_of(group, sweep))


def _left(groups: list[RunGroup], sweep: Sweep, say: Callable[[str], None]) -> list[RunGroup]:
    """Returns the run groups that are yet to be trained, and says where there are none."""
    left = [group for group in groups if not (sweep.resume and _is_finished(group, sweep))]
    for group in groups:
        if group not in left:
            checkpoints = checkpoints_of(group, sweep)
            checkpoints.remove()  # killed before it could do so itself
            checkpoints.lock.check_free()  # which removes one that was left behind
    if not left:
        say(f"Nothing is left to do: every run of the sweep in {sweep.out} has its summary.")
    return left


def _check_resumable(group: RunGroup, sweep: Sweep, say: Callable[[str], None]) -> None:
    """Raises where runs that are there cannot go on as the sweep asks, or still do."""
    checkpoints_of(group, sweep).lock.check_free()
    folders, is_finished = folders_of(group, sweep), _is_finished(group, sweep)
    for folder, header, run in zip(folders, group.headers, group.runs, strict=True):
        has_ended = (folder / "summary.json").exists()
        is_free = not run.depends_on_rounds and not has_ended
        check_same(folder, header, any_rounds=is_free or is_finished)
    if not is_finished:
        checkpoints_of(group, sweep).check_end(group.runs[0].settings.rounds)
        return
    ended = {rounds_of(folder) for folder in folders}
    if ended != {group.runs[0].settings.rounds}:
        lengths = " and ".join(f"{n:,}" for n in sorted(ended))
        seeds = sorted({header.seed for header in group.headers})
        of = f"{group.label}, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        say(f"Finished after {lengths} rounds, and left as they are: {of}.")
