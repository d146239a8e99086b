"""A sweep from its first run group to its last, and from a checkpoint where it was stopped."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ..records import (
    RunRecord,
    check_new,
    check_same,
    close_options,
    read_run,
    remove_options,
    rounds_of,
    write_copy,
    write_declaration,
    write_options,
)
from ..training import Progress, TrainingState, asked_by_signals
from ._experiment import Experiment
from ._file import read_experiment
from ._recording import Recording, checkpoints_of, folders_of
from ._search import with_chosen_rates
from ._stop import Stop, Stopped
from ._sweep import RunGroup, Sweep, chosen_device, run_groups
from .launchers import Failure, InTurn, Launcher, Message, choose_launcher

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
    try:
        left = _left(groups, sweep, say)
        if left:
            _record(left, sweep, launcher, stop, on_progress, say)
    except Exception:
        if sweep.options and not any(folder.exists() for folder in folders):
            remove_options(sweep.out, sweep.options)  # nothing is left that could be resumed
        raise
    if sweep.options:
        close_options(sweep.out, sweep.options)
    return folders


def sweep(
    experiment: Experiment | Path | str,
    out: Path | str | None = None,
    *,
    methods: Sequence[str] = (),
    n_runs: int | None = None,
    first_seed: int | None = None,
    group_size: int | None = None,
    device: str = "auto",
    data_folder: Path | str | None = None,
    checkpoint_every: int | None = None,
    deterministic: bool = False,
    resume: bool = False,
    minutes: float | None = None,
    workers: int | str | None = None,
    ray: str | None = None,
    gpus_per_group: float | None = None,
    say: _Say = print,
) -> list[RunRecord]:
    """Makes runs of an experiment, as `allotment run` does, and returns their records.

    Ctrl-C, or the end of the minutes, ends it with checkpoints and the exception ``Stopped``.

    >>> import tempfile
    >>> from torch import nn, randn
    >>> import allotment as al
    >>> from allotment.experiments import Experiment, Method, using
    >>> def network(allocate, outputs):
    ...     layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(3)], allocate(3))
    ...     return al.MultiTaskNetwork(None, [layer], task_names=list(outputs))
    >>> mine = Experiment(
    ...     name="mine",
    ...     tasks=[al.Task(name, (randn(40, 8), randn(40))) for name in "ab"],
    ...     network=network,
    ...     methods=[Method(name="gumbel", allocation=using(al.GumbelMatrix))],
    ...     training=al.TrainingSettings(rounds=10),
    ... )
    >>> records = al.sweep(mine, tempfile.mkdtemp(), n_runs=2, device="cpu")
    >>> [(record.header.method, record.header.seed) for record in records]
    [('gumbel', 0), ('gumbel', 1)]

    Args:
        experiment: One, or a Python file that defines it, such as ``"experiment.py"``.
        out: Where records go; None: ``runs/`` and the experiment's name.
        methods: Names of some of the experiment's methods; none: all.
        n_runs: Of each method; None: as many as the experiment declares.
        first_seed: Of the first run; the next has one more. None: as the experiment declares.
        group_size: The most runs that train together; None: as many as can.
        device: "auto" is a GPU where there is one.
        data_folder: Of the data sets; None: the usual one.
        checkpoint_every: Rounds between checkpoints; None: one a minute.
        deterministic: On a GPU: the same bits each time, if slower.
        resume: Go on with the runs that are in ``out``.
        minutes: After which it stops; None: at the end.
        workers: Processes that train run groups side by side; "auto": one for each GPU, or else
            for each core; None: one for each GPU, or else none but this.
        ray: The address of a Ray cluster that trains them, or "auto".
        gpus_per_group: A share of a GPU on that cluster; None: 1 where it has GPUs.
        say: Is told what people should know.
    """
    file = None if isinstance(experiment, Experiment) else read_experiment(experiment)
    declared = file.experiment if file else experiment
    assert isinstance(declared, Experiment)
    made = Sweep(
        experiment=declared,
        out=Path(out) if out is not None else Path("runs") / declared.name,
        methods=[declared.method(name) for name in methods],
        n_runs=n_runs,
        first_seed=first_seed,
        group_size=group_size,
        device=chosen_device(device),
        data_folder=None if data_folder is None else Path(data_folder),
        checkpoint_every=checkpoint_every,
        deterministic=deterministic,
        resume=resume,
        file=file,
    )
    launcher = choose_launcher(device, workers=workers, ray=ray, gpus_per_group=gpus_per_group)
    stop = Stop(minutes)
    with asked_by_signals(stop.ask, terminates=False):
        return [read_run(f) for f in run_sweep(made, say=say, stop=stop, launcher=launcher)]


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
    if sweep.file is not None or sweep.experiment.variant_of:
        spec = sweep.experiment.report_spec(measure=first.headers[0].measure)
        write_declaration(sweep.out, spec.experiment, spec.to_record())


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
        say(f"Finished after {lengths} rounds, and left as they are: {group.label}.")
