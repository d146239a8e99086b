"""Which tasks belong together, as several runs say it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from .._schema import Floats
from ..records import RunRecord
from ._arguments import of_runs
from ._clusters import Clustering, cluster, cut, linkage
from ._embeddings import cosine_similarity, distinct_groups, embeddings
from ._estimate import Estimate, estimate
from ._families import (
    ROUNDING,
    between_families,
    chance_own_is_nearest,
    chance_similarity,
    distinct_by_family,
    family_names,
    own_is_nearest,
    permutation_p_values,
    within_and_across,
)
from ._measure import check_one_suite
from ._usage import used_shares


@dataclass(frozen=True, kw_only=True)
class Family:
    """A known family of tasks, as the allocations show it."""

    name: str
    n_tasks: int
    n_distinct: Estimate  # different rows among its tasks
    n_uniform: int  # runs in which its tasks share one row
    within: Estimate  # mean similarity of two of its tasks; of no run where it has one task
    within_by_chance: Estimate  # what rows would have with their entries shuffled
    own_nearest: Estimate  # share of its tasks to which no other family is nearer
    own_nearest_by_chance: Estimate  # the same with entries shuffled
    p_values: tuple[float, ...]  # of each run: permutation test of whether the family lies apart


@dataclass(frozen=True, kw_only=True)
class FamilyPair:
    """Two families and how alike their tasks are."""

    first: str
    second: str
    similarity: Estimate
    by_chance: Estimate  # what rows would have with their entries shuffled
    n_nearest: int  # runs in which they are nearer to each other than any other two


@dataclass(frozen=True, kw_only=True)
class KnownFamilies:
    """How the allocations agree with the families that the tasks are known to belong to."""

    families: tuple[Family, ...]
    pairs: tuple[FamilyPair, ...]  # the nearest first
    within: Estimate  # mean similarity over all pairs of tasks of one family
    across: Estimate  # over all other pairs
    stability_at_known: float  # as `stability`, with as many clusters as families
    agreement_at_known: Estimate  # adjusted Rand index at the known number of families
    agreement_at_chosen: Estimate  # and at the number of clusters that the silhouette chose


@dataclass(frozen=True, kw_only=True)
class Relatedness:
    """What the runs of one method say of which tasks belong together."""

    n_distinct: Estimate  # different rows
    n_clusters: Estimate  # chosen by silhouette
    silhouette: Estimate  # of no run where it is undefined in all
    stability: float  # mean adjusted Rand index between the clusters of two runs; NaN for one run
    shares: tuple[Estimate, ...]  # of the components that each task uses
    by_chance: Estimate  # mean similarity that rows would have with their entries shuffled
    largest_share: float  # over tasks and runs
    budget: float | None  # the share that was allowed, where there was a budget
    known: KnownFamilies | None  # None where the records name no families


@of_runs
def relatedness(records: Sequence[RunRecord]) -> Relatedness:
    """Returns which tasks belong together in runs of one method; failed runs are left out."""
    finished = [record for record in records if record.finished]
    check_one_suite(finished)
    rows = list(map(embeddings, finished))
    similarities = list(map(cosine_similarity, rows))
    clusterings = list(map(cluster, similarities))
    shares = np.stack(list(map(used_shares, finished)))  # [R, T]
    header = finished[0].header
    return Relatedness(
        n_distinct=estimate(len(distinct_groups(each)) for each in rows),
        n_clusters=estimate(each.n_clusters for each in clusterings),
        silhouette=estimate(each.silhouette for each in clusterings),
        stability=stability(clusterings),
        shares=tuple(map(estimate, shares.T)),
        by_chance=estimate(_mean_of_pairs(chance_similarity(each)) for each in rows),
        largest_share=float(shares.max()),
        budget=_budget(header.settings.get("training", {}).get("penalties", {})),
        known=_known(rows, similarities, clusterings, header.families) if header.families else None,
    )


def _budget(penalties: dict[str, Any]) -> float | None:
    """Returns the budget of all tasks; None where it is by task, or counts no gates."""
    budget = penalties.get("budget")
    is_share_of_gates = penalties.get("cost", "count") == "count"
    return budget if isinstance(budget, float | int) and is_share_of_gates else None


def stability(clusterings: Sequence[Clustering]) -> float:
    """Returns the mean adjusted Rand index over pairs of clusterings; NaN for fewer than two.

    >>> import numpy as np
    >>> from allotment.analysis import cluster, cosine_similarity, stability
    >>> rows = np.array([[1, 0], [1, 0], [0, 1]])
    >>> stability([cluster(cosine_similarity(rows)), cluster(cosine_similarity(rows))])
    1.0
    """
    return _mean_agreement([each.labels for each in clusterings])


def _known(
    rows: Sequence[Floats],
    similarities: Sequence[Floats],
    clusterings: Sequence[Clustering],
    families: Sequence[str],
) -> KnownFamilies:
    between = np.stack([between_families(each, families) for each in similarities])  # [R, F, F]
    by_chance = np.stack([between_families(chance_similarity(each), families) for each in rows])
    inside_and_across = np.array([within_and_across(each, families) for each in similarities])
    at_known = [cut(linkage(each), len(set(families))) for each in similarities]
    return KnownFamilies(
        families=_families(rows, similarities, families, between, by_chance),
        pairs=_pairs(family_names(families), between, by_chance),
        within=estimate(inside_and_across[:, 0]),
        across=estimate(inside_and_across[:, 1]),
        stability_at_known=_mean_agreement(at_known),
        agreement_at_known=estimate(adjusted_rand_score(labels, families) for labels in at_known),
        agreement_at_chosen=estimate(
            adjusted_rand_score(each.labels, families) for each in clusterings
        ),
    )


def _families(
    rows: Sequence[Floats],
    similarities: Sequence[Floats],
    families: Sequence[str],
    between: Floats,
    by_chance: Floats,
) -> tuple[Family, ...]:
    distinct = np.array([distinct_by_family(each, families) for each in rows])  # [R, F]
    own = _by_family([own_is_nearest(each, families) for each in similarities], families)
    own_by_chance = _by_family([chance_own_is_nearest(each, families) for each in rows], families)
    p_values = [permutation_p_values(each, families) for each in rows]  # R times F
    return tuple(
        Family(
            name=name,
            n_tasks=list(families).count(name),
            n_distinct=estimate(distinct[:, place]),
            n_uniform=int((distinct[:, place] == 1).sum()),
            within=estimate(between[:, place, place]),
            within_by_chance=estimate(by_chance[:, place, place]),
            own_nearest=estimate(own[:, place]),
            own_nearest_by_chance=estimate(own_by_chance[:, place]),
            p_values=tuple(run[place] for run in p_values),
        )
        for place, name in enumerate(family_names(families))
    )


def _pairs(names: Sequence[str], between: Floats, by_chance: Floats) -> tuple[FamilyPair, ...]:
    """Returns each two families, the nearest first."""
    places = list(combinations(range(len(names)), 2))
    every = np.array([[run[place] for place in places] for run in between])  # [R, P]
    pairs = [
        FamilyPair(
            first=names[a],
            second=names[b],
            similarity=estimate(between[:, a, b]),
            by_chance=estimate(by_chance[:, a, b]),
            n_nearest=_n_largest(every, place),
        )
        for place, (a, b) in enumerate(places)
    ]
    return tuple(sorted(pairs, key=lambda pair: -pair.similarity.mean))


def _mean_agreement(groupings: Sequence[Sequence[int]]) -> float:
    # Many runs agree, and the index of equal groupings is 1, so only different ones are compared:
    # thirty runs have 435 pairs, and scikit-learn takes about a millisecond for one.
    counts = Counter(tuple(each) for each in groupings)
    different = sum(
        counts[a] * counts[b] * adjusted_rand_score(a, b) for a, b in combinations(counts, 2)
    )
    equal = sum(comb(n, 2) for n in counts.values())
    n_pairs = comb(len(groupings), 2)
    return (different + equal) / n_pairs if n_pairs else float("nan")


def _by_family(values: Sequence[Floats], families: Sequence[str]) -> Floats:
    """Returns the mean over the tasks of each family in each run, shape ``[R, F]``."""
    member = np.array(families)
    return np.array(
        [[run[member == name].mean() for name in family_names(families)] for run in values]
    )


def _n_largest(values: Floats, place: int) -> int:
    """Returns in how many rows of ``values`` the one at ``place`` is larger than all others."""
    others = np.delete(values, place, axis=1).max(axis=1, initial=-np.inf)
    return int((values[:, place] > others + ROUNDING).sum())


def _mean_of_pairs(similarity: Floats) -> float:
    """Returns the mean over pairs of different tasks; NaN where there is one task."""
    pairs = similarity[np.triu_indices(len(similarity), 1)]
    return float(pairs.mean()) if len(pairs) else float("nan")
