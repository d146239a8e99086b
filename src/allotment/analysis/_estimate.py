"""A mean over runs that carries its spread."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from .._checks import numbers

CONFIDENCE = 0.9  # of every interval, as in the paper's figures


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What several runs say of one number; one run alone has no spread, which is then NaN.

    Its text gives the standard deviation over runs, as the paper's tables do:

    >>> print(estimate([96.6, 96.8, 97.0]))
    96.8 ± 0.2 sd (n=3)
    >>> print(estimate([96.8]))
    96.8 (n=1, no spread)
    """

    mean: float
    sd: float  # standard deviation over runs, with n - 1
    half_width: float  # of the 90 % Student-t interval of the mean
    median: float
    n: int

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 90 % interval of the mean."""
        return self.mean - self.half_width, self.mean + self.half_width

    def scaled(self, factor: float) -> "Estimate":
        """Returns the same estimate in another unit, such as percent."""
        mean, median = self.mean * factor, self.median * factor
        sd, half_width = self.sd * factor, self.half_width * factor
        return Estimate(mean=mean, sd=sd, half_width=half_width, median=median, n=self.n)

    def complement(self) -> "Estimate":
        """Returns the estimate of 1 less the number, such as an error for an accuracy."""
        return replace(self, mean=1.0 - self.mean, median=1.0 - self.median)

    @property
    def runs_text(self) -> str:
        """How many runs there are, for a reader."""
        return "n=1, no spread" if self.n == 1 else f"n={self.n}"

    @property
    def value_text(self) -> str:
        """The text without the number of runs, for where that is said once for many."""
        if self.n == 0:
            return "no run"
        if self.n == 1:
            return f"{self.mean:.3g}"
        digits = n_decimals(self.sd)
        return f"{self.mean:.{digits}f} ± {self.sd:.{digits}f} sd"

    def __str__(self) -> str:
        return f"{self.value_text} ({self.runs_text})" if self.n else self.value_text


def estimate(values: Iterable[float]) -> Estimate:
    """Returns mean, spread and interval of ``values``; those that are not finite are left out.

    >>> from allotment.analysis import estimate
    >>> found = estimate([0.9, 1.0, 1.1])
    >>> print(found)
    1.00 ± 0.10 sd (n=3)
    >>> found.n
    3
    """
    is_drawn = isinstance(values, Iterator)  # from a generator, for once
    found = np.atleast_1d(numbers("values", list(values) if is_drawn else values))
    finite = found[np.isfinite(found)]
    n = len(finite)
    if n == 0:
        return Estimate(mean=math.nan, sd=math.nan, half_width=math.nan, median=math.nan, n=0)
    sd = float(finite.std(ddof=1)) if n > 1 else math.nan
    if n > 1 and (finite == finite[0]).all():
        sd = 0.0  # and not what rounding the mean leaves of it
    return Estimate(
        mean=float(finite.mean()),
        sd=sd,
        half_width=half_width(sd, n),
        median=float(np.median(finite)),
        n=n,
    )


def half_width(sd: float, n: int) -> float:
    """Returns half the width of the 90 % interval of a mean of ``n`` values; NaN for one value."""
    if n < 2:
        return math.nan
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * sd / math.sqrt(n)


def disjoint(a: Estimate, b: Estimate) -> bool:
    """Returns whether the 90 % intervals of two means lie apart; False where one has no spread.

    Args:
        a: An estimate.
        b: Another.
    """
    return a.interval[1] < b.interval[0] or b.interval[1] < a.interval[0]


def n_decimals(spread: float) -> int:
    """Returns how many decimals show a spread's first digit, and its second after a leading 1.

    >>> [n_decimals(spread) for spread in (5.1, 0.2, 0.15, 0.04, 0.0002)]
    [1, 1, 2, 2, 4]
    """
    if not math.isfinite(spread) or spread <= 0:
        return 2
    mantissa, exponent = f"{spread:.1e}".split("e")
    return min(4, max(1, -int(exponent) + mantissa.startswith("1")))
