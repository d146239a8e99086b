"""Two methods compared seed by seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .._schema import Floats
from ..records import RunRecord
from ._arguments import of_runs
from ._estimate import estimate
from ._measure import measure


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
    """
    a, b = _by_seed(records_a), _by_seed(records_b)
    differences = np.array([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())])
    found = estimate(differences)
    return PairedDifference(
        mean=found.mean,
        half_width=found.half_width,
        t_p_value=_t_p_value(differences),
        wilcoxon_p_value=_wilcoxon_p_value(differences),
        n=found.n,
    )


def _by_seed(records: Sequence[RunRecord]) -> dict[int, float]:
    values = {record.header.seed: measure(record) for record in records}
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
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences).pvalue)
