"""Which kinds of component each layer uses, as a table and beside the paper's sentences."""

from collections.abc import Sequence

import numpy as np

from ..analysis import Usage, family_names, usage_by_kind, usage_trends
from ..records import RunRecord

from ._section import MANY_FAMILIES, Section, has_many_tasks
from ._tables import NOTHING, Table


def usage_tables(part: Section) -> list[Table]:
    """Returns the usage of each learnt method, where components have kinds and layers."""
    tables = []
    for row, runs in part.learnt:
        if has_kinds(runs[0]):
            tables.append(usage_table(usage_by_kind(runs), row.name, len(runs)))
            families = runs[0].header.families
            if has_many_tasks(runs[0]) and 1 < len(set(families)) <= MANY_FAMILIES:
                tables.append(family_usage_table(runs, row.name))
    return tables


def usage_table(usage: Usage, name: str, n_runs: int) -> Table:
    """Returns the share of open gates by layer and kind, in percent."""
    rows = [
        (str(layer + 1), *(_percent(share) for share in shares), f"{100 * diversity:.0f}")
        for layer, (shares, diversity) in enumerate(zip(usage.shares, usage.diversity, strict=True))
    ]
    return Table(
        head=("Layer", *usage.kinds, "Tasks differ"),
        rows=tuple(rows),
        caption=(
            f"Gates open by layer and kind, {name}, % over tasks and {_runs(n_runs)}; and how "
            "often a gate differs between two tasks, %"
        ),
    )


def family_usage_table(runs: Sequence[RunRecord], name: str) -> Table:
    """Returns the share of open gates of each family by layer and kind, in percent."""
    families = runs[0].header.families
    kinds: tuple[str, ...] = ()
    rows = []
    for family in family_names(families):
        usage = usage_by_kind(runs, [t for t, own in enumerate(families) if own == family])
        kinds = usage.kinds
        for layer, shares in enumerate(usage.shares):
            rows.append((family, str(layer + 1), *(_percent(share) for share in shares)))
    return Table(
        head=("Family", "Layer", *kinds),
        rows=tuple(rows),
        caption=(
            f"Gates open by family, layer and kind, {name}, % over tasks and {_runs(len(runs))}"
        ),
    )


def trend_words(part: Section) -> list[str]:
    """Returns the paper's sentences on usage, each with a verdict and its numbers."""
    return [
        f"{row.name}, a trend of the paper: {trend.claim}. It "
        f"{'holds' if trend.holds else 'does not hold'} over all runs together, and it holds in "
        f"{trend.n_holding} of {trend.n_runs} alone: {trend.found}."
        for row, runs in part.learnt
        for trend in usage_trends(runs)
    ]


def has_kinds(record: RunRecord) -> bool:
    """Returns whether names say what components are; single letters only tell them apart."""
    names = record.header.component_names
    return len(record.header.layer_sizes) > 1 and all(len(name) > 1 for name in names)


def _percent(share: float) -> str:
    return NOTHING if np.isnan(share) else f"{100 * share:.0f}"


def _runs(n: int) -> str:
    return "1 run" if n == 1 else f"{n} runs"
