"""What the paper says of the components that Omniglot's tasks use, held against runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._schema import Floats
from ..records import RunRecord

if TYPE_CHECKING:
    from ..analysis import Usage
    from ..report import Table

EARLY, MIDDLE, LAST = slice(0, 4), slice(4, 7), slice(7, 8)  # of the paper's eight layers
N_LAYERS, AVERAGE = 8, "average pool"
_ALMOST_ALWAYS = 0.95  # ours, for the paper's "almost all components are always used"


@dataclass(frozen=True, kw_only=True)
class Trend:
    """A sentence of the paper, and what the runs have to say to it."""

    claim: str
    holds: bool  # over tasks and runs together
    found: str  # the numbers behind the verdict
    n_holding: int  # runs in which it holds alone
    n_runs: int


def trend_table(name: str, records: Sequence[RunRecord]) -> "Table | None":
    """Returns the paper's trends beside the runs of the method ``name``, if they can be asked."""
    from ..report import Column, make_table  # here, since both take long to import

    trends = usage_trends(records)
    columns: list[Column[Trend]] = [
        Column("The paper's trend", lambda trend: trend.claim, kind="text"),
        Column("All runs", lambda trend: "holds" if trend.holds else "does not hold"),
        Column("Each run", lambda trend: f"{trend.n_holding} of {trend.n_runs}"),
        Column("Numbers", lambda trend: trend.found, kind="text"),
    ]
    caption = (
        f"Three trends of the paper (Section V-B), {name}: whether each holds over all runs "
        "together, and in how many runs alone"
    )
    return make_table(columns, trends, caption) if trends else None


def usage_trends(records: Sequence[RunRecord]) -> list[Trend]:
    """Returns the paper's three trends (Section V-B), each held against the finished runs.

    There are none where the network is not the paper's, with eight layers and average pooling
    beside other kinds of component, or where gates are not open or shut.
    """
    from ..analysis import usage_by_kind

    finished = [record for record in records if record.finished]
    if not finished or not _are_the_papers(finished[0]):
        return []
    together = usage_by_kind(finished)
    alone = [usage_by_kind([record]) for record in finished]
    return [
        Trend(
            claim=claim,
            holds=check(together)[0],
            found=check(together)[1],
            n_holding=sum(check(usage)[0] for usage in alone),
            n_runs=len(alone),
        )
        for claim, check in _CHECKS
    ]


def _are_the_papers(record: RunRecord) -> bool:
    kinds = set(record.header.component_kinds)
    n_layers = len(record.header.layer_sizes)
    return record.header.is_binary and n_layers == N_LAYERS and {AVERAGE} < kinds


def _early(usage: "Usage") -> tuple[bool, str]:
    shut = np.nan_to_num(1 - usage.shares)  # [L, K]
    total = usage.diversity.sum()
    if not total:
        return False, "no two tasks differ"
    of_shut = shut[EARLY].sum() / shut.sum()
    of_diversity = usage.diversity[EARLY].sum() / total
    by_kind = shut[EARLY].mean(axis=0)
    least, most = by_kind.argmin(), by_kind.argmax()
    return bool(of_diversity > 0.5), (
        f"{_percent(of_diversity)} of the differences between tasks and {_percent(of_shut)} of the "
        f"shut gates are there; of its gates there, {usage.kinds[most]} has "
        f"{_percent(by_kind[most])} shut and {usage.kinds[least]} {_percent(by_kind[least])}"
    )


def _middle(usage: "Usage") -> tuple[bool, str]:
    average, others = _apart(usage, MIDDLE)
    holds = others.min() >= _ALMOST_ALWAYS and average.min() < 1 and average.max() > 0
    layers = ", ".join(_percent(share) for share in average.ravel())
    return bool(holds), (
        f"average pooling is open for {layers} of the tasks in the three layers, each of the rest "
        f"for {_least(others)}"
    )


def _last(usage: "Usage") -> tuple[bool, str]:
    average, others = _apart(usage, LAST)
    return bool(average.max() == 0 and others.min() == 1), (
        f"average pooling is open for {_percent(average.max())} of the tasks, each of the rest "
        f"for {_least(others)}"
    )


def _apart(usage: "Usage", layers: slice) -> tuple[Floats, Floats]:
    """Returns the shares of average pooling in some layers, and those of the rest."""
    is_average = np.array(usage.kinds) == AVERAGE
    return usage.shares[layers][:, is_average], usage.shares[layers][:, ~is_average]


def _least(shares: Floats) -> str:
    return "all of them" if shares.min() == 1 else f"at least {_percent(shares.min())}"


def _percent(share: float | np.floating[Any]) -> str:
    """Returns a share in percent; only nothing is called 0 % and only everything 100 %.

    >>> [_percent(share) for share in (0.0, 0.001, 0.25, 0.999, 1.0)]
    ['0 %', '0.1 %', '25 %', '99.9 %', '100 %']
    """
    digits = 0 if share in (0, 1) or 0.01 <= share <= 0.99 else 1
    return f"{100 * share:.{digits}f} %"


_CHECKS: tuple[tuple[str, Callable[["Usage"], tuple[bool, str]]], ...] = (
    ("most of the differences between tasks lie in layers 1 to 4", _early),
    ("layers 5 to 7 use almost everything, but average pooling for some tasks only", _middle),
    ("layer 8 never uses average pooling and always uses the rest", _last),
)
