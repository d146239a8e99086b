"""A sweep from its first run group to its last, and from a checkpoint where it was stopped."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from .._schema import Floats
from ..modules import extract
from ..records import (
    Checkpoints,
    RunWriter,
    check_new,
    check_same,
    close_options,
    describe_environment,
    open_runs,
    read_environment,
    remove_options,
    reopen_runs,
    rounds_of,
    run_folder,
    write_copy,
    write_declaration,
    write_options,
)
from ..training import Outcome, Progress, Run, TrainingState, train
from ._search import with_chosen_rates
from ._stop import Stop, Stopped
from ._sweep import RunGroup, Sweep, device_name, run_groups

SECONDS_BETWEEN = 60.0  # checkpoints, unless rounds are given


@dataclass(frozen=True)
class _Listeners:
    """Who hears of a sweep while it goes on, and who may stop it."""

    on_progress: Callable[[RunGroup, Progress], None]
    say: Callable[[str], None]
    stop: Stop


def run_sweep(
    sweep: Sweep,
    on_progress: Callable[[RunGroup, Progress], None] = lambda group, progress: None,
    *,
    say: Callable[[str], None] = lambda text: None,
    stop: Stop | None = None,
) -> list[Path]:
    """Makes all runs of a sweep and returns their folders.

    When it is stopped, the runs under way are marked as interrupted; asked by ``stop``, it first
    writes a checkpoint and then raises ``Stopped``. With ``sweep.resume``, finished run groups are
    left as they are, and one that was under way goes on. Its rounds may be others than before,
    unless its steps depend on them.

    Where the experiment has a `search`, learning rates are chosen first.
    """
    listeners = _Listeners(on_progress, say, stop or Stop())
    if sweep.experiment.search is not None:
        if sweep.options:  # before the search, so that it can be resumed
            write_options(sweep.out, sweep.options)
        sweep = with_chosen_rates(sweep, lambda s: run_sweep(s, on_progress, say=say, stop=stop))
    groups = list(run_groups(sweep))
    folders = [folder for group in groups for folder in _folders(group, sweep)]
    if sweep.resume:
        for group in groups:
            _check_resumable(group, sweep, say)
    else:
        check_new(folders)
    _describe(sweep, groups[0])
    try:
        _record_all(_left(groups, sweep, say), sweep, listeners)
    except Exception:
        if sweep.options and not any(folder.exists() for folder in folders):
            remove_options(sweep.out, sweep.options)  # nothing is left that could be resumed
        raise
    if sweep.options:
        close_options(sweep.out, sweep.options)
    return folders


def _record_all(left: list[RunGroup], sweep: Sweep, listeners: _Listeners) -> None:
    with determinism(sweep.deterministic):
        for group in left:
            # Never before the first, so that even the shortest sweep gets further by a block.
            if group is not left[0] and listeners.stop.reason:
                raise Stopped(listeners.stop.reason)
            _record(group, sweep, listeners)


def _describe(sweep: Sweep, first: RunGroup) -> None:
    """Writes what is kept of a sweep beside its runs."""
    if sweep.options:
        write_options(sweep.out, sweep.options)
    if sweep.file is not None:
        write_copy(sweep.out, sweep.file.content)
        spec = sweep.experiment.report_spec(measure=first.headers[0].measure)
        write_declaration(sweep.out, spec.experiment, spec.to_record())


@contextmanager
def determinism(wanted: bool) -> Iterator[None]:
    """Has torch choose deterministic algorithms, where it is wanted, and warn where it has none.

    A CPU needs nothing of this.
    """
    if not wanted:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.backends.cudnn.flags(deterministic=True, benchmark=False):
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)


def _folders(group: RunGroup, sweep: Sweep) -> list[Path]:
    return [run_folder(sweep.out, header) for header in group.headers]


def _is_finished(group: RunGroup, sweep: Sweep) -> bool:
    return all((folder / "summary.json").exists() for folder in _folders(group, sweep))


def _left(groups: list[RunGroup], sweep: Sweep, say: Callable[[str], None]) -> list[RunGroup]:
    """Returns the run groups that are yet to be trained, and says where there are none."""
    left = [group for group in groups if not (sweep.resume and _is_finished(group, sweep))]
    for group in groups:
        if group not in left:
            checkpoints = _checkpoints(group, sweep)
            checkpoints.remove()  # killed before it could do so itself
            checkpoints.lock.check_free()  # which removes one that was left behind
    if not left:
        say(f"Nothing is left to do: every run of the sweep in {sweep.out} has its summary.")
    return left


def _checkpoints(group: RunGroup, sweep: Sweep) -> Checkpoints:
    """Returns where the checkpoints of a run group are, which its first and last run name."""
    runs = [folder.relative_to(sweep.out).as_posix() for folder in _folders(group, sweep)]
    name = f"{runs[0]}--{runs[-1]}".replace("/", "-")
    return Checkpoints(sweep.out / "checkpoints" / name, runs)


def _check_resumable(group: RunGroup, sweep: Sweep, say: Callable[[str], None]) -> None:
    """Raises where runs that are there cannot go on as the sweep asks, or still do."""
    _checkpoints(group, sweep).lock.check_free()
    folders, is_finished = _folders(group, sweep), _is_finished(group, sweep)
    for folder, header, run in zip(folders, group.headers, group.runs, strict=True):
        has_ended = (folder / "summary.json").exists()
        is_free = not run.settings.depends_on_rounds and not has_ended
        check_same(folder, header, any_rounds=is_free or is_finished)
    if not is_finished:
        _checkpoints(group, sweep).check_end(group.runs[0].settings.rounds)
        return
    ended = {rounds_of(folder) for folder in folders}
    if ended != {group.runs[0].settings.rounds}:
        lengths = " and ".join(f"{n:,}" for n in sorted(ended))
        say(f"Finished after {lengths} rounds, and left as they are: {group.label}.")


def _record(group: RunGroup, sweep: Sweep, listeners: _Listeners) -> None:
    """Trains a run group and records its runs, from the newest checkpoint where it resumes."""
    checkpoints = _checkpoints(group, sweep)
    with checkpoints.lock:
        _record_alone(group, sweep, listeners, checkpoints)


def _record_alone(
    group: RunGroup, sweep: Sweep, listeners: _Listeners, checkpoints: Checkpoints
) -> None:
    n_rounds = group.runs[0].settings.rounds
    state = checkpoints.newest(listeners.say, n_rounds) if sweep.resume else None
    if state is None:
        checkpoints.remove()  # of runs that were there before
    else:
        checkpoints.forget_after(state.round)  # their log entries are about to be cut off
    writers = _writers(group, sweep, state, listeners.say)
    try:
        _train(group, sweep, listeners, writers, checkpoints, state)
    except BaseException as error:
        reason = str(error) if isinstance(error, Stopped) else type(error).__name__
        for writer in writers:
            writer.interrupt(reason)
        raise
    checkpoints.remove()


def _writers(
    group: RunGroup, sweep: Sweep, state: TrainingState | None, say: Callable[[str], None]
) -> list[RunWriter]:
    now = describe_environment(
        device_name(sweep.device),
        deterministic=sweep.deterministic,
        source=str(sweep.file) if sweep.file else "",
    )
    if not sweep.resume:
        return open_runs(sweep.out, group.headers, now)
    writers = reopen_runs(sweep.out, group.headers, state, now)
    if state is not None:
        say(f"Resuming after round {state.round}.")
        changes = read_environment(writers[-1].folder).last_changes()  # the last to be closed
        if changes:
            say(f"The end may differ in the last bits from that of a run never stopped: {changes}.")
    return writers


def _train(
    group: RunGroup,
    sweep: Sweep,
    listeners: _Listeners,
    writers: list[RunWriter],
    checkpoints: Checkpoints,
    state: TrainingState | None,
) -> None:
    saved = time.monotonic()
    n_last = sweep.experiment.report.n_last_rounds
    for progress in train(group.runs, device=sweep.device, n_last_rounds=n_last, resume_from=state):
        _write(group, writers, progress)
        listeners.on_progress(group, progress)
        reason = listeners.stop.reason
        if progress.state and (reason or _is_due(progress.round, saved, sweep.checkpoint_every)):
            for writer in writers:
                writer.sync()
            checkpoints.write(progress.state())
            saved = time.monotonic()
            if reason:
                raise Stopped(reason)


def _write(group: RunGroup, writers: list[RunWriter], progress: Progress) -> None:
    for writer in writers:
        writer.n_done = progress.round
    for writer, entry in zip(writers, progress.entries or [], strict=False):
        writer.add(entry)
    for run, writer, outcome in zip(group.runs, writers, progress.outcomes or [], strict=False):
        writer.close(replace(outcome, n_used=_n_used(run, outcome)))


def _n_used(run: Run, outcome: Outcome) -> Floats | None:
    """Returns how many parameters the part of each task has; None where it differs by example."""
    network = deepcopy(run.network)
    network.load_state_dict(outcome.weights)
    try:
        parts = [extract(network, task) for task in range(network.n_tasks)]
    except (ValueError, NotImplementedError):
        return None
    return np.array([sum(p.numel() for p in part.parameters()) for part in parts], dtype=float)


def _is_due(done: int, saved: float, every: int | None) -> bool:
    """Tells whether the time for a checkpoint has come, by rounds or by the clock."""
    return time.monotonic() - saved >= SECONDS_BETWEEN if every is None else done % every == 0
