"""What the paper says of the components that Omniglot's tasks use, held against runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..analysis._usage import Usage, usage_by_kind
from ..records import RunRecord

EARLY, MIDDLE, LAST = slice(0, 4), slice(4, 7), slice(7, 8)  # of the paper's eight layers
_ALMOST_ALWAYS = 0.95  # ours, for the paper's "almost all components are always used"


@dataclass(frozen=True, kw_only=True)
class Trend:
    """A sentence of the paper, and what the runs have to say to it."""

    claim: str
    holds: bool  # over tasks and runs together
    found: str  # the numbers behind the verdict
    n_holding: int  # runs in which it holds alone
    n_runs: int


def usage_trends(records: Sequence[RunRecord]) -> list[Trend]:
    """Returns the paper's three trends (Section V-B), each held against the finished runs.

    There are none where the network is not the paper's, with eight layers and average pooling
    beside other kinds of component.
    """
    finished = [record for record in records if record.finished]
    if not finished or not _is_the_papers(usage_by_kind(finished[:1])):
        return []
    together = usage_by_kind(finished)
    alone = [usage_by_kind([record]) for record in finished]
    trends = []
    for claim, check in _CHECKS:
        holds, found = check(together)
        n_holding = sum(check(usage)[0] for usage in alone)
        trends.append(
            Trend(claim=claim, holds=holds, found=found, n_holding=n_holding, n_runs=len(alone))
        )
    return trends


def _is_the_papers(usage: Usage) -> bool:
    is_average = [_is_average(kind) for kind in usage.kinds]
    return len(usage.shares) == 8 and sum(is_average) == 1 and len(is_average) > 1


def _is_average(kind: str) -> bool:
    return re.match(r"(average|avg)\b", kind, re.IGNORECASE) is not None


def _early(usage: Usage) -> tuple[bool, str]:
    shut = np.nan_to_num(1 - usage.shares)  # [L, K]
    if not shut.any():
        return False, "no gate is shut"
    of_shut = shut[EARLY].sum() / shut.sum()
    total = usage.diversity.sum()
    of_diversity = usage.diversity[EARLY].sum() / total if total else 0.0
    by_kind = shut[EARLY].mean(axis=0)
    least, most = by_kind.argmin(), by_kind.argmax()
    return bool(of_shut > 0.5 and of_diversity > 0.5), (
        f"{_percent(of_shut)} of the shut gates and {_percent(of_diversity)} of the differences "
        f"between tasks are there; of its gates there, {usage.kinds[most]} has "
        f"{_percent(by_kind[most])} shut and {usage.kinds[least]} {_percent(by_kind[least])}"
    )


def _middle(usage: Usage) -> tuple[bool, str]:
    average, others = _apart(usage, MIDDLE)
    holds = others.min() >= _ALMOST_ALWAYS and average.min() < 1 and average.max() > 0
    layers = ", ".join(_percent(share) for share in average.ravel())
    return bool(holds), (
        f"average pooling is open for {layers} of the tasks in the three layers, each of the rest "
        f"for {_least(others)}"
    )


def _last(usage: Usage) -> tuple[bool, str]:
    average, others = _apart(usage, LAST)
    return bool(average.max() == 0 and others.min() == 1), (
        f"average pooling is open for {_percent(average.max())} of the tasks, each of the rest "
        f"for {_least(others)}"
    )


def _apart(usage: Usage, layers: slice) -> tuple[np.ndarray, np.ndarray]:
    """Returns the shares of average pooling in some layers, and those of the rest."""
    is_average = np.array([_is_average(kind) for kind in usage.kinds])
    return usage.shares[layers][:, is_average], usage.shares[layers][:, ~is_average]


def _least(shares: np.ndarray) -> str:
    return "all of them" if shares.min() == 1 else f"at least {_percent(shares.min())}"


def _percent(share: float) -> str:
    """Returns a share in percent; only nothing is called 0 % and only everything 100 %.

    >>> [_percent(share) for share in (0.0, 0.001, 0.25, 0.999, 1.0)]
    ['0 %', '0.1 %', '25 %', '99.9 %', '100 %']
    """
    digits = 0 if share in (0, 1) or 0.01 <= share <= 0.99 else 1
    return f"{100 * share:.{digits}f} %"


_CHECKS = (
    ("most gates are shut in layers 1 to 4, where tasks differ most", _early),
    ("layers 5 to 7 use almost everything, but average pooling for some tasks only", _middle),
    ("layer 8 never uses average pooling and always uses the rest", _last),
)
