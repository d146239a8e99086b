"""The folders and checkpoints of one run group, while it trains here or elsewhere."""

from collections.abc import Callable
from pathlib import Path

from ..records import (
    Checkpoints,
    Environment,
    RunWriter,
    open_runs,
    read_environment,
    reopen_runs,
    run_folder,
    write_preprocessing,
)
from ..tasks import TableTasks
from ..training import Progress, TrainingState
from ._sweep import RunGroup, Sweep
from .launchers import Message


def folders_of(group: RunGroup, sweep: Sweep) -> list[Path]:
    """Returns where the runs of a group are recorded."""
    return [run_folder(sweep.out, header) for header in group.headers]


def checkpoints_of(group: RunGroup, sweep: Sweep) -> Checkpoints:
    """Returns where the checkpoints of a run group are, which its first and last run name."""
    runs = [folder.relative_to(sweep.out).as_posix() for folder in folders_of(group, sweep)]
    name = f"{runs[0]}--{runs[-1]}".replace("/", "-")
    return Checkpoints(sweep.out / "checkpoints" / name, runs)


class Recording:
    """Writes what is told of one run group, from the newest checkpoint where it resumes.

    From its beginning to its end, or its interruption, no other process writes these runs.

    Args:
        group: Whose runs they are.
        sweep: That they belong to.
        resumes: Whether to go on with what is there.
        say: Is told what people should know.
    """

    def __init__(
        self, group: RunGroup, sweep: Sweep, *, resumes: bool, say: Callable[[str], None]
    ) -> None:
        self._group, self._sweep, self._resumes, self._say = group, sweep, resumes, say
        self._checkpoints = checkpoints_of(group, sweep)
        self._writers: list[RunWriter] = []
        self.is_finished = False
        self._checkpoints.lock.claim()
        n_rounds = group.runs[0].settings.rounds
        self.state = self._checkpoints.newest(say, n_rounds) if resumes else None
        if self.state is None:
            self._checkpoints.remove()  # of runs that were there before
        else:
            self._checkpoints.forget_after(self.state.round)  # their entries will be cut off

    def add(self, message: Message) -> None:
        """Writes what a message tells."""
        match message:
            case Environment():
                self._open(message)
            case Progress():
                self._write(message)
            case TrainingState():
                for writer in self._writers:
                    writer.sync()
                self._checkpoints.write(message)

    def interrupt(self, reason: str) -> None:
        """Marks runs that have begun and are not finished."""
        for writer in self._writers:
            writer.interrupt(reason)
        self._checkpoints.lock.release()

    def _open(self, environment: Environment) -> None:
        out, headers, state = self._sweep.out, self._group.headers, self.state
        self.state = None  # which may be large
        if not self._resumes:
            self._writers = open_runs(out, headers, environment)
            self._keep_preprocessing()
            return
        self._writers = reopen_runs(out, headers, state, environment)
        self._keep_preprocessing()
        if state is None:
            return
        self._say(f"Resuming after round {state.round}.")
        changes = read_environment(self._writers[-1].folder).last_changes()  # last to be closed
        if changes:
            self._say(
                f"The end may differ in the last bits from that of a run never stopped: {changes}."
            )

    def _keep_preprocessing(self) -> None:
        """Writes how rows of a table become inputs, so that a trained network can take some."""
        for run, writer in zip(self._group.runs, self._writers, strict=True):
            if isinstance(run.tasks, TableTasks):
                write_preprocessing(writer.folder, run.tasks.preprocessing.to_dict())

    def _write(self, progress: Progress) -> None:
        for writer in self._writers:
            writer.n_done = progress.round
        for writer, entry in zip(self._writers, progress.entries or [], strict=False):
            writer.add(entry)
        if progress.outcomes is None:
            return
        for writer, outcome in zip(self._writers, progress.outcomes, strict=True):
            writer.close(outcome)
        self._checkpoints.remove()
        self._checkpoints.lock.release()
        self.is_finished = True
