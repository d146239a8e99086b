"""Whether learnt gates paid beside the baselines of an experiment, in a sentence."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from .._advice import LEARNT, SEPARATE, SHARED, WAYS, compare
from .._schema import Floats
from ..analysis import validation_measure
from ._section import MANY, ResultRow, Section
from ._table import not_run_text

_COSTS = {  # what is compared, and whether it is 1 less the recorded number
    "loss": ("validation loss", False),
    "test_loss": ("validation loss", False),
    "accuracy": ("validation error", True),
    "score": ("distance of the validation score from 1", True),
}


class _Way(NamedTuple):
    """A way of sharing, as the method that stands for it did it."""

    row: ResultRow
    costs: dict[int, float]  # by seed


def advice_text(part: Section) -> list[str]:
    """Returns which way of sharing the runs of a section speak for; nothing of many conditions."""
    if len(part.conditions) > 2:
        return []
    return [_at(part, condition) for condition in part.conditions]


def _at(part: Section, condition: str) -> str:
    """Returns whether learnt gates pay beside the baselines that were run, on validation.

    Nothing is said where there is nothing to compare, or where methods are so many that the best is
    best by chance.
    """
    rows = [row for row in part.ran if row.spec.condition == condition and row.finished]
    ways = _best_of_each_way(rows)
    if len(rows) > MANY or LEARNT not in ways or len(ways) < 2:
        return ""
    gates = np.concatenate([r.outcome.probabilities.ravel() for r in ways[LEARNT].row.finished])
    verdict = compare(_paired(ways), _compared(rows), gates)
    head = f"Advice at {condition}" if condition else "Advice"
    others = not_run_text(sorted(set(WAYS) - set(ways), key=WAYS.index))
    return f"{head}: {verdict.recommendation}. {verdict.reason} {others}".rstrip()


def _compared(rows: Sequence[ResultRow]) -> str:
    """Returns what methods are compared by."""
    if all(run.outcome.validation is None for row in rows for run in row.finished):
        return "training loss"  # all that there is
    return _COSTS[rows[0].runs[0].header.measure][0]


def _best_of_each_way(rows: Sequence[ResultRow]) -> dict[str, _Way]:
    """Returns the ways of sharing, of which the best of several methods stands for all."""
    found: dict[str, list[_Way]] = {}
    for row in rows:
        if (way := _way(row)) and (costs := _costs(row)):
            found.setdefault(way, []).append(_Way(row, costs))
    return {
        way: min(own, key=lambda each: fmean(each.costs.values())) for way, own in found.items()
    }


def _paired(ways: Mapping[str, _Way]) -> dict[str, Floats]:
    """Returns the costs of the seeds that all ways have, ``[S, 1]`` by way."""
    seeds = sorted(set.intersection(*(set(each.costs) for each in ways.values())))
    return {
        way: np.array([each.costs[seed] for seed in seeds])[:, None] for way, each in ways.items()
    }


def _way(row: ResultRow) -> str:
    """Returns which of the three ways a method is, read from who uses what; else nothing."""
    uses = row.finished[0].outcome.matrix > 0
    if not row.display.is_binary:
        return ""
    if row.spec.learnt:
        return LEARNT
    return SHARED if uses.all() else SEPARATE if (uses.sum(axis=0) <= 1).all() else ""


def _costs(row: ResultRow) -> dict[int, float]:
    """Returns by seed what is reported of a method, on validation, as something to be small."""
    _, is_complement = _COSTS[row.runs[0].header.measure]
    found = {run.header.seed: validation_measure(run) for run in row.finished}
    return {
        seed: 1.0 - value if is_complement else value
        for seed, value in found.items()
        if not np.isnan(value)
    }
