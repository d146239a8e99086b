"""Whether learnt gates paid beside the baselines of an experiment, in a sentence."""

from collections.abc import Mapping

import numpy as np

from .._advice import LEARNT, SEPARATE, SHARED, WAYS, compare
from ..analysis import validation_measure
from ._section import MANY, ResultRow, Section

_COSTS = {  # what is compared, and whether it is 1 less the recorded number
    "loss": ("loss", False),
    "test_loss": ("validation loss", False),
    "accuracy": ("validation error", True),
    "score": ("distance of the validation score from 1", True),
}


def advice_text(part: Section) -> list[str]:
    """Returns which way of sharing the runs of a section speak for; nothing of many conditions."""
    if len(part.conditions) > 2:
        return []
    return [_at(part, condition) for condition in part.conditions]


def _at(part: Section, condition: str) -> str:
    """Returns whether learnt gates pay beside the baselines that were run, on validation.

    Of several methods that share alike the best one stands for all. Nothing is said where there
    is nothing to compare, or where methods are so many that the best is best by chance.
    """
    rows = [row for row in part.ran if row.spec.condition == condition and row.finished]
    ways: dict[str, dict[int, float]] = {}
    for row in rows if len(rows) <= MANY else []:
        way, costs = _way(row), _costs(row)
        if way and costs and (way not in ways or _mean(costs) < _mean(ways[way])):
            ways[way] = costs
    if LEARNT not in ways or len(ways) < 2:
        return ""
    seeds = sorted(set.intersection(*(set(costs) for costs in ways.values())))
    found = {way: np.array([[costs[s]] for s in seeds]) for way, costs in ways.items()}
    what, _ = _COSTS[rows[0].runs[0].header.measure]
    verdict = compare(found, what)
    where = f" at {condition}" if condition else ""
    missing = [way for way in WAYS if way not in ways]
    others = f" Not run: {', '.join(missing)}." if missing else ""
    return f"Advice{where}: {verdict.recommendation}. {verdict.reason}{others}"


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


def _mean(costs: Mapping[int, float]) -> float:
    return sum(costs.values()) / len(costs)
