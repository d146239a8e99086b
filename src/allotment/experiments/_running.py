"""A launch from its first cohort to its last."""

from collections.abc import Callable
from pathlib import Path

from ..records import check_new, check_same, rounds_of, run_folder, write_options
from ..training import Progress
from ._determinism import determinism
from ._launch import Cohort, Launch, cohorts
from ._recording import Listeners, checkpoints_of, record
from ._stop import Stop, Stopped


def run_launch(
    launch: Launch,
    on_progress: Callable[[Cohort, Progress], None],
    *,
    say: Callable[[str], None] = lambda text: None,
    stop: Stop | None = None,
) -> list[Path]:
    """Makes all runs of a launch and returns their folders.

    When it is stopped, the runs under way are marked as interrupted; asked by ``stop``, it first
    writes a checkpoint and then raises ``Stopped``. With ``launch.resume``, finished cohorts are
    left as they are, and one that was under way goes on. Its rounds may be others than before,
    unless its steps depend on them.
    """
    listeners = Listeners(on_progress, say, stop or Stop())
    prepared = list(cohorts(launch))
    headers = [header for cohort in prepared for header in cohort.headers]
    folders = [run_folder(launch.out, header) for header in headers]
    if launch.resume:
        for cohort in prepared:
            _check_resumable(cohort, launch, say)
    else:
        check_new(folders)
    if launch.options:
        write_options(launch.out, launch.options)
    left = [cohort for cohort in prepared if not (launch.resume and _is_finished(cohort, launch))]
    for cohort in prepared:
        if cohort not in left:
            checkpoints_of(cohort, launch).remove()  # killed before it could do so itself
    if not left:
        say(f"Nothing is left to do: every run of the launch in {launch.out} has its summary.")
    with determinism(launch.deterministic):
        for cohort in left:
            # Never before the first, so that even the shortest launch gets further by a block.
            if cohort is not left[0] and listeners.stop.reason:
                raise Stopped(listeners.stop.reason)
            record(cohort, launch, listeners)
    return folders


def _check_resumable(cohort: Cohort, launch: Launch, say: Callable[[str], None]) -> None:
    """Raises where runs that are there cannot go on as the launch asks."""
    is_finished = _is_finished(cohort, launch)
    for header, run in zip(cohort.headers, cohort.runs, strict=True):
        folder = run_folder(launch.out, header)
        has_ended = (folder / "summary.json").exists()
        is_free = not run.settings.depends_on_rounds and not has_ended
        check_same(folder, header, any_rounds=is_free or is_finished)
    if not is_finished:
        checkpoints_of(cohort, launch).check_end(cohort.runs[0].settings.rounds)
        return
    ended = {rounds_of(run_folder(launch.out, header)) for header in cohort.headers}
    if ended != {cohort.runs[0].settings.rounds}:
        lengths = " and ".join(f"{n:,}" for n in sorted(ended))
        say(f"Finished after {lengths} rounds, and left as they are: {cohort.label}.")


def _is_finished(cohort: Cohort, launch: Launch) -> bool:
    folders = [run_folder(launch.out, header) for header in cohort.headers]
    return all((folder / "summary.json").exists() for folder in folders)
