"""Methods ranked over several suites of tasks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .._schema import HIGHER_IS_BETTER, Floats
from ..records import RunRecord
from ._estimate import estimate
from ._measure import measure

_LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How ``K`` methods rank on ``S`` suites (Demsar, 2006, "Statistical comparisons of ...").

    Friedman's test asks whether all methods could be equally good; its p-value is that of Iman and
    Davenport's F. Where it is small, two methods differ at the 5 % level if their mean ranks are
    at least the critical difference of Nemenyi's test apart.

    Attributes:
        methods: Their names.
        ranks: On each suite, ``[S, K]``; 1 is best, and ties share the mean of their ranks.
        mean_ranks: Over suites, ``[K]``.
        wins: Suites on which a method alone is best, ``[K]``.
        chi_square: Friedman's statistic; NaN for one suite or two methods, as what follows is.
        f_statistic: Iman and Davenport's.
        p_value: Of it.
        critical_difference: Of mean ranks.
    """

    methods: tuple[str, ...]
    ranks: Floats
    mean_ranks: Floats
    wins: tuple[int, ...]
    chi_square: float
    f_statistic: float
    p_value: float
    critical_difference: float

    @property
    def n_suites(self) -> int:
        return len(self.ranks)


def ranking(methods: Sequence[str], values: Floats, *, higher_is_better: Sequence[bool]) -> Ranking:
    """Returns how methods rank by their values on each suite, ``[S, K]``, which are all known.

    >>> import numpy as np
    >>> from allotment.analysis import ranking
    >>> values = np.array([[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.95, 0.9, 0.91]])
    >>> ranking(["a", "b", "c"], values, higher_is_better=[True] * 3).mean_ranks
    array([1.        , 2.33333333, 2.66666667])

    Args:
        methods: Their names, ``K``.
        values: Of each method on each suite, ``[S, K]``.
        higher_is_better: For each suite, whether a larger value is better.
    """
    if values.ndim != 2 or values.shape != (len(higher_is_better), len(methods)):
        raise ValueError(
            "`values` should have a row for each suite and a column for each method. "
            f"Found shape {list(values.shape)} for {len(higher_is_better)} suites and "
            f"{len(methods)} methods."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"`values` should be finite. Found {int((~np.isfinite(values)).sum())}.")
    signs = np.where(higher_is_better, -1.0, 1.0)[:, None]
    ranks = stats.rankdata(signs * values, axis=1)
    chi_square, f_statistic, p_value = _friedman(ranks)
    return Ranking(
        methods=tuple(methods),
        ranks=ranks,
        mean_ranks=ranks.mean(axis=0),
        wins=tuple(int(n) for n in (ranks == 1).sum(axis=0)),
        chi_square=chi_square,
        f_statistic=f_statistic,
        p_value=p_value,
        critical_difference=critical_difference(*ranks.shape),
    )


def _friedman(ranks: Floats) -> tuple[float, float, float]:
    """Returns Friedman's statistic, Iman and Davenport's, and the p-value of the latter."""
    n, k = ranks.shape
    if n < 2 or k < 3:
        return math.nan, math.nan, math.nan
    means = ranks.mean(axis=0)
    chi_square = 12 * n / (k * (k + 1)) * float((means**2).sum() - k * (k + 1) ** 2 / 4)
    left = n * (k - 1) - chi_square
    if left <= 1e-9:  # every suite has the same order
        return chi_square, math.inf, 0.0
    f_statistic = (n - 1) * chi_square / left
    return chi_square, f_statistic, float(stats.f.sf(f_statistic, k - 1, (k - 1) * (n - 1)))


def critical_difference(n_suites: int, n_methods: int) -> float:
    """Returns how far apart mean ranks have to be to differ at the 5 % level (Nemenyi's test).

    >>> round(critical_difference(n_suites=4, n_methods=16), 2)
    11.53

    Args:
        n_suites: How many suites the methods are ranked on.
        n_methods: How many methods are ranked.
    """
    if n_suites < 2 or n_methods < 2:
        return math.nan
    # From the distribution of the range of K normal values, whose degrees of freedom are infinite.
    q = float(stats.studentized_range.ppf(1 - _LEVEL, n_methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_methods * (n_methods + 1) / (6 * n_suites))


def ranked(suites: Mapping[str, Mapping[str, Sequence[RunRecord]]]) -> tuple[Ranking | None, str]:
    """Returns the ranking of the methods that have a result on every suite, and who is missing.

    ``suites`` holds the runs of each method of each suite, of which the median counts. A suite
    counts where two methods or more have a result. None where fewer than two methods are left.
    """
    found = {name: _medians(methods) for name, methods in suites.items()}
    found = {name: medians for name, medians in found.items() if len(medians) > 1}
    kept, missing = _everywhere(list(found.values()))
    if not found or len(kept) < 2:
        return None, ", ".join(missing)
    values = np.array([[medians[method] for method in kept] for medians in found.values()])
    is_higher = [_is_higher(suites[name]) for name in found]
    return ranking(kept, values, higher_is_better=is_higher), ", ".join(missing)


def leaders(suites: Mapping[str, Mapping[str, Sequence[RunRecord]]]) -> dict[str, str]:
    """Returns the method whose median run is best on each suite that ran, with a rank or without.

    >>> leaders({"not run": {"a": [], "b": []}})
    {}

    Args:
        suites: The runs of each method of each suite.
    """
    found = {name: _medians(methods) for name, methods in suites.items()}
    return {
        name: (max if _is_higher(suites[name]) else min)(medians, key=medians.__getitem__)
        for name, medians in found.items()
        if medians
    }


def _everywhere(suites: Sequence[Mapping[str, float]]) -> tuple[list[str], list[str]]:
    """Returns the methods that have a value on every suite, and those that miss one."""
    every = dict.fromkeys(method for medians in suites for method in medians)
    kept = [method for method in every if all(method in medians for medians in suites)]
    return kept, [method for method in every if method not in kept]


def _medians(methods: Mapping[str, Sequence[RunRecord]]) -> dict[str, float]:
    """Returns each method's median run: a mean would be that of its one run that went wrong."""
    found = {name: estimate(map(measure, records)) for name, records in methods.items()}
    return {name: own.median for name, own in found.items() if own.n}


def _is_higher(methods: Mapping[str, Sequence[RunRecord]]) -> bool:
    record = next(record for records in methods.values() for record in records)
    return record.header.measure in HIGHER_IS_BETTER
