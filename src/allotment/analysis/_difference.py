"""Two methods compared seed by seed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .._schema import Floats
from ..records import RunRecord
from ._arguments import of_runs
from ._estimate import estimate
from ._measure import measure

_DIGITS = 10  # to which differences are told apart, beside the largest


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """The measure of one method less that of another, over the seeds both ran."""

    mean: float
    half_width: float  # of the 90 % Student-t interval of the mean difference
    t_p_value: float  # of a paired t-test; NaN for fewer than two seeds
    wilcoxon_p_value: float  # of Wilcoxon's signed-rank test; NaN for fewer than two seeds
    n: int

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 90 % interval of the mean difference."""
        return self.mean - self.half_width, self.mean + self.half_width


@of_runs
def paired_difference(
    records_a: Sequence[RunRecord], records_b: Sequence[RunRecord]
) -> PairedDifference:
    """Returns how much the runs ``a`` lie above the runs ``b`` with the same seeds.

    Two methods with one seed see the same data, so the pairs leave out what the data alone does.
    Seeds that only one of them finished are left out.

    Args:
        records_a: Runs of one method.
        records_b: Runs of another; only seeds that both have count.
    """
    differences = seed_differences(records_a, records_b)
    found = estimate(differences)
    return PairedDifference(
        mean=found.mean,
        half_width=found.half_width,
        t_p_value=_t_p_value(differences),
        wilcoxon_p_value=_wilcoxon_p_value(differences),
        n=found.n,
    )


def seed_differences(
    records_a: Sequence[RunRecord],
    records_b: Sequence[RunRecord],
    of: Callable[[RunRecord], float] = measure,
) -> Floats:
    """Returns how much the runs ``a`` lie above the runs ``b``, for each seed of both.

    ``of`` is the number that is compared.
    """
    a, b = _by_seed(records_a, of), _by_seed(records_b, of)
    return np.array([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())])


def _by_seed(records: Sequence[RunRecord], of: Callable[[RunRecord], float]) -> dict[int, float]:
    values = {record.header.seed: of(record) for record in records}
    return {seed: value for seed, value in values.items() if math.isfinite(value)}


def _t_p_value(differences: Floats) -> float:
    if len(differences) < 2:
        return math.nan
    if np.ptp(differences) == 0:  # no spread at all, where the test would divide by zero
        return 0.0 if differences[0] else 1.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def _wilcoxon_p_value(differences: Floats) -> float:
    if len(differences) < 2:
        return math.nan
    # Differences of equal numbers may differ by rounding, which would break ties.
    size = np.abs(differences).max()
    rounded = np.round(differences / size, _DIGITS) if size else differences
    return _signed_rank_p_value(rounded[rounded != 0])


def _signed_rank_p_value(differences: Floats) -> float:
    """Returns the exact p-value of both sides, where ties have the means of their ranks."""
    ranks = np.rint(2 * stats.rankdata(np.abs(differences))).astype(int)  # whole, halves too
    chances = np.ones(1)  # of each sum of the ranks above 0, were every sign a toss
    for rank in ranks:
        nothing = np.zeros(rank)
        chances = (np.append(chances, nothing) + np.append(nothing, chances)) / 2
    above = int(ranks[differences > 0].sum())
    return min(1.0, 2 * float(min(chances[: above + 1].sum(), chances[above:].sum())))
