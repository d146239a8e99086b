"""What learning the sharing gains over a fixed pattern, seed by seed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .._schema import HIGHER_IS_BETTER
from ..records import RunRecord
from ._difference import seed_differences
from ._estimate import Estimate, estimate
from ._measure import measure, validation_measure


@dataclass(frozen=True, kw_only=True)
class Advantage:
    """How much better one method is than another, over the seeds both ran; 90 % interval.

    Of losses it is a share of the other's mean loss, in percent; of accuracies and scores it is
    their difference, in percentage points.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def sign(self) -> int:
        """1 or -1 where the interval leaves out 0, above it or below it; else 0."""
        return int(self.low > 0) - int(self.high < 0)  # NaN is neither


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A method beside the better of several others, and beside the best that there could be."""

    baseline: str  # the better of the others, by its mean over seeds
    over_baseline: Advantage
    behind_oracle: Advantage | None  # what the oracle has over the method, if there is one
    measures: Mapping[str, Estimate]  # of every method


def gain(
    runs: Mapping[str, Sequence[RunRecord]],
    learnt: str,
    baselines: Sequence[str],
    oracle: str = "",
    *,
    of: Callable[[RunRecord], float] = measure,
) -> Gain | None:
    """Returns what a method gains; None where it or one of the baselines has no finished run.

    The better baseline is chosen by the same runs, whose luck makes it look a little too good: the
    gain is a little too small rather than too large.

    Args:
        runs: Of each method, by its name.
        learnt: The method that is judged.
        baselines: Methods whose best one it is compared with.
        oracle: A method that knows the answer, if there is one.
        of: The number that is compared: `measure`, or `validation_measure` to choose by.
    """
    measures = {name: estimate(map(of, own)) for name, own in runs.items()}
    if not all(name in measures and measures[name].n for name in (learnt, *baselines)):
        return None
    sign = 1 if _rises(runs[learnt]) else -1
    better = max(baselines, key=lambda name: sign * measures[name].mean)
    has_oracle = oracle in measures and measures[oracle].n > 0
    return Gain(
        baseline=better,
        over_baseline=advantage(runs[learnt], runs[better], of),
        behind_oracle=advantage(runs[oracle], runs[learnt], of) if has_oracle else None,
        measures=measures,
    )


def advantage(
    records: Sequence[RunRecord],
    others: Sequence[RunRecord],
    of: Callable[[RunRecord], float] = measure,
) -> Advantage:
    """Returns how much better runs are than others with the same seeds.

    Args:
        records: Runs of one method.
        others: Runs of another, with the same seeds.
        of: The number that is compared.
    """
    found = estimate(seed_differences(records, others, of))
    factor = 100.0
    if not _rises(records):
        factor /= -estimate(map(of, others)).mean
    low, high = sorted(factor * end for end in found.interval)
    return Advantage(mean=factor * found.mean, low=low, high=high, n=found.n)


def best_on_validation(trials: Sequence[Sequence[RunRecord]]) -> Sequence[RunRecord]:
    """Returns the runs of the trial that does best on validation; one that failed is the worst.

    Trials without runs are left out; where all are, the answer is empty.
    """
    present = [trial for trial in trials if trial]

    def score(trial: Sequence[RunRecord]) -> float:
        mean = sum(map(validation_measure, trial)) / len(trial)
        if not math.isfinite(mean):
            return -math.inf
        return mean if _rises(trial) else -mean

    return max(present, key=score) if present else []


def _rises(records: Sequence[RunRecord]) -> bool:
    """Tells whether more is better."""
    return records[0].header.measure in HIGHER_IS_BETTER
