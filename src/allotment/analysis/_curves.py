"""Loss over time, smoothed and as a band over runs; validation error or loss over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from .._checks import check_count
from .._schema import Floats
from ..records import RunRecord
from ._arguments import of_runs
from ._estimate import Estimate, estimate, half_width


@dataclass(frozen=True, kw_only=True)
class Band:
    """A mean over runs with its 90 % interval at each of ``n`` rounds."""

    rounds: Floats  # [n]
    mean: Floats  # [n]
    low: Floats  # [n], NaN where there is one run only
    high: Floats  # [n]
    n_runs: int


@dataclass(frozen=True, kw_only=True)
class ErrorCurves:
    """The validation error, or loss, of each run over rounds, and the mean over runs."""

    runs: tuple[tuple[Floats, Floats], ...]  # rounds of each and its error, 0 to 1, or its loss
    rounds: Floats  # [n], where all runs had a validation check
    mean: Floats  # [n]


def smooth(curve: Floats, window: int) -> Floats:
    """Returns at each point the mean of the last ``window`` points, or of half of those so far.

    The fewer count. A curve that falls fast at first would else have a kink where the window
    leaves its start.

    >>> import numpy as np
    >>> smooth(np.array([4.0, 2.0, 0.0, 4.0]), 2).tolist()
    [4.0, 2.0, 1.0, 2.0]
    """
    check_count("window", window)
    ends = range(1, len(curve) + 1)
    return np.array([curve[end - min(window, (end + 1) // 2) : end].mean() for end in ends])


@of_runs
def loss_band(records: Sequence[RunRecord], window: int) -> Band:
    """Returns the training loss, mean over tasks, of runs that reached their end.

    Args:
        records: The runs. Where their entries lie at different rounds, those of the shortest run
            are taken and the others read off between their own.
        window: Rounds to smooth over; at least one entry is taken.
    """
    check_count("window", window)
    finished = [record for record in records if record.finished and len(record.rounds)]
    if not finished:
        nothing = np.zeros(0)
        return Band(rounds=nothing, mean=nothing, low=nothing, high=nothing, n_runs=0)
    shortest = min(finished, key=lambda record: (record.rounds[-1], len(record.rounds)))
    rounds = shortest.rounds.astype(np.float64)
    curves = np.stack(
        [np.interp(rounds, record.rounds, _smoothed(record, window)) for record in finished]
    )  # [R, n]
    mean, n_runs = curves.mean(axis=0), len(finished)
    spread = curves.std(axis=0, ddof=1) if n_runs > 1 else np.full_like(mean, np.nan)
    half = half_width(1.0, n_runs) * spread
    return Band(rounds=rounds, mean=mean, low=mean - half, high=mean + half, n_runs=n_runs)


def _smoothed(record: RunRecord, window: int) -> Floats:
    """Returns a run's loss over time, smoothed over about ``window`` rounds."""
    interval = float(np.median(np.diff(record.rounds, prepend=0)))
    return smooth(record.losses.mean(axis=1), max(1, round(window / max(interval, 1.0))))


@of_runs
def error_curves(records: Sequence[RunRecord]) -> ErrorCurves:
    """Returns the validation error over rounds of runs that reached their end.

    It is one less the accuracy, mean over tasks, 0 to 1; runs with a task that has no accuracy are
    left out. The mean over runs is taken where all of them had a check.
    """
    return _curves_of([_errors(record) for record in records if record.finished])


@of_runs
def validation_loss_curves(records: Sequence[RunRecord]) -> ErrorCurves:
    """Returns the validation loss, mean over tasks, over rounds of runs that reached their end."""
    return _curves_of([_losses(record) for record in records if record.finished])


def _curves_of(curves: Sequence[tuple[Floats, Floats]]) -> ErrorCurves:
    runs = tuple(curve for curve in curves if len(curve[0]))
    if not runs:
        nothing = np.zeros(0)
        return ErrorCurves(runs=(), rounds=nothing, mean=nothing)
    rounds = reduce(np.intersect1d, [at for at, _ in runs])
    errors = [error[np.isin(at, rounds)] for at, error in runs]
    return ErrorCurves(runs=runs, rounds=rounds, mean=np.mean(errors, axis=0))


@of_runs
def late_change(records: Sequence[RunRecord]) -> Estimate:
    """Returns how validation error, 0 to 1, changed from the third quarter of rounds to the last.

    It is the mean over the checks of a run in each, so that one good check counts for little.
    """
    curves = [_errors(record) for record in records if record.finished]
    return estimate(_change(*curve) for curve in curves)


def _change(rounds: Floats, errors: Floats) -> float:
    """Returns NaN where a quarter has no check."""
    if not len(rounds):
        return np.nan
    share = rounds / rounds[-1]
    before, after = errors[(share > 0.5) & (share <= 0.75)], errors[share > 0.75]
    return float(after.mean() - before.mean()) if len(before) else np.nan


@of_runs
def accuracy_by_checkpoint(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns the mean validation accuracy over tasks, by the checkpoint that it is taken from.

    The first, a run's best checkpoint, is the one that results report. To take the best of many
    flatters it, and more so where each task has a best one of its own; the mean over the later half
    of the checks is flattered by nothing. Empty where no run was chosen among several checks.
    """
    checks = [found for r in records if r.finished and (found := _by_check(r)) is not None]
    if not checks:
        return {}
    tables = [table for table, _ in checks]  # each [N, T]
    return {
        "the best of a run": estimate(table[best].mean() for table, best in checks),
        "the best of each task": estimate(table.max(0).mean() for table in tables),
        "mean over the later half": estimate(table[len(table) // 2 :].mean() for table in tables),
    }


def _by_check(record: RunRecord) -> tuple[Floats, int] | None:
    """Returns validation accuracies, a row for each check and a column for each task.

    Beside them stands the row whose weights were kept. None where none was chosen by several.
    """
    seen = {at: each.accuracies for at, each in record.validation if each.accuracies is not None}
    best = record.outcome.best_round
    if best not in seen or len(seen) < 2:
        return None
    table = np.array(list(seen.values()), dtype=np.float64)
    table = table[:, np.isfinite(table).all(0)]  # a regression has no accuracy
    return (table, list(seen).index(best)) if table.size else None


def _errors(record: RunRecord) -> tuple[Floats, Floats]:
    """Returns the rounds of a run's validation checks, and its error there."""
    found = [(at, seen.accuracies) for at, seen in record.validation if seen.accuracies is not None]
    errors = np.array([1.0 - accuracies.mean() for _, accuracies in found])
    is_known = np.isfinite(errors)  # a regression has no accuracy
    return np.array([at for at, _ in found], dtype=np.float64)[is_known], errors[is_known]


def _losses(record: RunRecord) -> tuple[Floats, Floats]:
    """Returns the rounds of a run's validation checks, and its loss there."""
    rounds = np.array([at for at, _ in record.validation], dtype=np.float64)
    return rounds, np.array([seen.losses.mean() for _, seen in record.validation])
