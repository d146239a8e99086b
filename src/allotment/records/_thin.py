"""Curves made short enough to keep."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._schema import Evaluation, Floats

from ._files import plain
from ._record import RunRecord, Snapshots

_MAX_POINTS = 60
_MAX_NUMBERS = 480  # of one run's losses, so that forty tasks take no more room than eight
_MAX_GATES = 40_000  # of one run's gates over time; at least 24 points stay
_DIGITS = 4


def thin(record: RunRecord) -> tuple[list[int], list[list[float]], list[float]]:
    """Returns rounds, losses and share active of a run at no more than 60 points.

    Neighbouring points become one: the mean of their losses, each counted with its number of
    rounds, so that a loss is still the mean over the rounds since the point before.
    """
    n_points = min(_MAX_POINTS, max(8, _MAX_NUMBERS // len(record.header.task_names)))
    n = len(record.rounds)
    ends = _evenly(n, n_points)
    starts = np.concatenate([[0], ends[:-1] + 1]) if n else ends
    lengths = np.maximum(np.diff(record.rounds, prepend=0), 1)  # a first look may be at round 0
    losses = [
        np.average(record.losses[start : end + 1], axis=0, weights=lengths[start : end + 1])
        for start, end in zip(starts, ends, strict=True)
    ]
    rounds = [int(record.rounds[end]) for end in ends]
    return rounds, rounded(losses, _DIGITS), rounded(record.share_active[ends], _DIGITS)


def thin_looks(record: RunRecord) -> tuple[tuple[int, Evaluation], ...]:
    """Returns a run's looks at validation, no more than 60 and the last among them."""
    n_looks = min(_MAX_POINTS, max(16, 2 * _MAX_NUMBERS // len(record.header.task_names)))
    return tuple(record.validation[place] for place in _evenly(len(record.validation), n_looks))


def thin_gates(snapshots: Snapshots) -> Snapshots:
    """Returns gates over time at no more than 60 rounds, fewer where there are many gates."""
    n, *shape = snapshots.probabilities.shape
    n_points = min(_MAX_POINTS, max(24, _MAX_GATES // max(1, int(np.prod(shape)))))
    places = _evenly(n, n_points)
    return Snapshots(rounds=snapshots.rounds[places], probabilities=snapshots.probabilities[places])


def _evenly(n: int, n_points: int) -> NDArray[np.int64]:
    """Returns at most ``n_points`` of ``n`` places, evenly and the last among them."""
    step = max(1, -(-n // n_points))
    return np.arange(n - 1, -1, -step)[::-1]


def rounded(values: Floats | list[Floats] | float, digits: int) -> Any:
    """Returns numbers to this many significant digits, in JSON's own types."""
    shortened = [float(f"{value:.{digits}g}") for value in np.ravel(values)]
    return plain(np.reshape(shortened, np.shape(values)))
