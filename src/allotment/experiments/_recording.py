"""A cohort from its start, or from its checkpoint, to its records."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..records import Checkpoints, RunWriter, open_runs, read_environment, reopen_runs, run_folder
from ..training import Progress, TrainingState, train
from ._launch import Cohort, Launch, device_name
from ._stop import Stop, Stopped

SECONDS_BETWEEN = 60.0  # checkpoints, unless rounds are given


@dataclass(frozen=True)
class Listeners:
    """Who hears of a launch while it goes on, and who may stop it."""

    on_progress: Callable[[Cohort, Progress], None]
    say: Callable[[str], None]
    stop: Stop


def record(cohort: Cohort, launch: Launch, listeners: Listeners) -> None:
    """Trains a cohort and records its runs; going on, it starts from the newest checkpoint."""
    checkpoints = checkpoints_of(cohort, launch)
    n_rounds = cohort.runs[0].settings.rounds
    state = checkpoints.newest(listeners.say, n_rounds) if launch.resume else None
    if state is None:
        checkpoints.remove()  # of runs that were there before
    else:
        checkpoints.forget_after(state.round)  # their points are about to be cut off
    writers = _writers(cohort, launch, state, listeners.say)
    try:
        _train(cohort, launch, listeners, writers, checkpoints, state)
    except BaseException as error:
        reason = str(error) if isinstance(error, Stopped) else type(error).__name__
        for writer in writers:
            writer.interrupt(reason)
        raise
    checkpoints.remove()


def checkpoints_of(cohort: Cohort, launch: Launch) -> Checkpoints:
    """Returns where the checkpoints of a cohort are, which its first and its last run name."""
    folders = [run_folder(launch.out, header) for header in cohort.headers]
    runs = [folder.relative_to(launch.out).as_posix() for folder in folders]
    name = f"{runs[0]}--{runs[-1]}".replace("/", "-")
    return Checkpoints(launch.out / "checkpoints" / name, runs)


def _writers(
    cohort: Cohort, launch: Launch, state: TrainingState | None, say: Callable[[str], None]
) -> list[RunWriter]:
    device, deterministic = device_name(launch.device), launch.deterministic
    if not launch.resume:
        return open_runs(launch.out, cohort.headers, device=device, deterministic=deterministic)
    writers = reopen_runs(
        launch.out, cohort.headers, state, device=device, deterministic=deterministic
    )
    if state is not None:
        say(f"Going on after round {state.round}.")
        changes = read_environment(writers[-1].folder).last_changes()  # the last to be closed
        if changes:
            say(f"The end may differ in the last bits from that of a run never stopped: {changes}.")
    return writers


def _train(
    cohort: Cohort,
    launch: Launch,
    listeners: Listeners,
    writers: list[RunWriter],
    checkpoints: Checkpoints,
    state: TrainingState | None,
) -> None:
    saved = time.monotonic()
    n_last = launch.experiment.n_last_rounds
    for progress in train(
        cohort.runs, device=launch.device, n_last_rounds=n_last, resume_from=state
    ):
        for writer, point in zip(writers, progress.entries or [], strict=False):
            writer.add(point)
        for writer, outcome in zip(writers, progress.outcomes or [], strict=False):
            writer.close(outcome)
        listeners.on_progress(cohort, progress)
        reason = listeners.stop.reason
        if progress.state and (reason or _is_due(progress.round, saved, launch.checkpoint_every)):
            for writer in writers:
                writer.sync()
            checkpoints.write(progress.state())
            saved = time.monotonic()
            if reason:
                raise Stopped(reason)


def _is_due(done: int, saved: float, every: int | None) -> bool:
    """Tells whether the time for a checkpoint has come, by rounds or by the clock."""
    return time.monotonic() - saved >= SECONDS_BETWEEN if every is None else done % every == 0
