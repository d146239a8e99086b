"""Which tasks belong together, as several runs say it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from allotment._progress import Floats
from allotment.records import RunRecord

from ._clusters import Clustering, agreement, cluster, cut, linkage, numbered
from ._embeddings import chance_similarity, cosine_similarity, distinct_groups, embeddings
from ._estimate import Estimate, estimate
from ._families import (
    between_families,
    distinct_by_family,
    family_names,
    nearest_in_family,
    within_and_across,
)


@dataclass(frozen=True, kw_only=True)
class Family:
    """A known family of tasks, as the allocations show it."""

    name: str
    n_tasks: int
    n_distinct: Estimate  # different rows among its tasks
    n_uniform: int  # runs in which its tasks share one row
    within: Estimate  # mean similarity of two of its tasks; of no run where it has one task
    within_by_chance: Estimate  # what rows with as many open gates would have


@dataclass(frozen=True, kw_only=True)
class FamilyPair:
    """Two families and how alike their tasks are."""

    first: str
    second: str
    similarity: Estimate
    by_chance: Estimate  # what rows with as many open gates would have
    n_nearest: int  # runs in which no other two families are nearer


@dataclass(frozen=True, kw_only=True)
class KnownFamilies:
    """How the allocations agree with the families that the tasks are known to belong to."""

    families: tuple[Family, ...]
    pairs: tuple[FamilyPair, ...]  # the nearest first
    within: Estimate  # mean similarity over all pairs of tasks of one family
    across: Estimate  # over all other pairs
    nearest: Estimate  # share of tasks whose most similar other task is of their family
    agreement_at_known: Estimate  # adjusted Rand index at the known number of families
    agreement_at_chosen: Estimate  # and at the number of clusters that the silhouette chose


@dataclass(frozen=True, kw_only=True)
class Relatedness:
    """What the runs of one method say of which tasks belong together."""

    n_distinct: Estimate  # different rows
    n_clusters: Estimate  # chosen by silhouette
    silhouette: Estimate  # of no run where it is undefined in all
    stability: float  # mean adjusted Rand index between the clusters of two runs; NaN for one run
    shares: tuple[Estimate, ...]  # of open gates, for each task
    by_chance: Estimate  # mean similarity that rows with as many open gates would have
    largest_share: float  # of open gates, over tasks and runs
    budget: float | None  # the share that was allowed, where there was a budget
    known: KnownFamilies | None  # None where the records name no families


def relatedness(records: Sequence[RunRecord]) -> Relatedness:
    """Returns which tasks belong together in runs of one method; failed runs are left out."""
    finished = [record for record in records if record.finished]
    _check_one_suite(finished)
    rows = [embeddings(record) for record in finished]
    similarities = [cosine_similarity(each) for each in rows]
    clusterings = [cluster(each) for each in similarities]
    header = finished[0].header
    families = header.families
    return Relatedness(
        n_distinct=estimate(len(distinct_groups(each)) for each in rows),
        n_clusters=estimate(each.n_clusters for each in clusterings),
        silhouette=estimate(each.silhouette for each in clusterings),
        stability=stability(clusterings),
        shares=tuple(estimate(task) for task in np.stack([each.mean(axis=1) for each in rows]).T),
        by_chance=estimate(_mean_of_pairs(chance_similarity(each)) for each in rows),
        largest_share=max(float(each.mean(axis=1).max()) for each in rows),
        budget=header.settings.get("training", {}).get("budget"),
        known=_known(rows, similarities, clusterings, families) if families else None,
    )


def separates(record: RunRecord) -> bool | None:
    """Returns whether clusters of the embeddings, as many as families, are the families.

    That asks less than `recovers`: the tasks of a family may have different rows. None where the
    record names no families.
    """
    families = record.header.families
    if not families:
        return None
    tree = linkage(cosine_similarity(embeddings(record)))
    return cut(tree, len(set(families))) == numbered(families)


def stability(clusterings: Sequence[Clustering]) -> float:
    """Returns the mean adjusted Rand index over pairs of clusterings; NaN for fewer than two."""
    pairs = combinations([each.labels for each in clusterings], 2)
    found = [agreement(first, second) for first, second in pairs]
    return float(np.mean(found)) if found else float("nan")


def _known(
    rows: Sequence[Floats],
    similarities: Sequence[Floats],
    clusterings: Sequence[Clustering],
    families: Sequence[str],
) -> KnownFamilies:
    names = family_names(families)
    between = np.stack([between_families(each, families) for each in similarities])  # [R, F, F]
    by_chance = np.stack([between_families(chance_similarity(each), families) for each in rows])
    distinct = np.array([distinct_by_family(each, families) for each in rows])  # [R, F]
    inside_and_across = np.array([within_and_across(each, families) for each in similarities])
    at_known = [cut(linkage(each), len(names)) for each in similarities]
    places = list(combinations(range(len(names)), 2))
    nearest = [max((run[a, b] for a, b in places), default=np.nan) for run in between]
    pairs = [
        FamilyPair(
            first=names[a],
            second=names[b],
            similarity=estimate(between[:, a, b]),
            by_chance=estimate(by_chance[:, a, b]),
            n_nearest=int((between[:, a, b] == nearest).sum()),
        )
        for a, b in places
    ]
    return KnownFamilies(
        families=tuple(
            Family(
                name=name,
                n_tasks=list(families).count(name),
                n_distinct=estimate(distinct[:, place]),
                n_uniform=int((distinct[:, place] == 1).sum()),
                within=estimate(between[:, place, place]),
                within_by_chance=estimate(by_chance[:, place, place]),
            )
            for place, name in enumerate(names)
        ),
        pairs=tuple(sorted(pairs, key=lambda pair: -pair.similarity.mean)),
        within=estimate(inside_and_across[:, 0]),
        across=estimate(inside_and_across[:, 1]),
        nearest=estimate(nearest_in_family(each, families) for each in similarities),
        agreement_at_known=estimate(agreement(labels, families) for labels in at_known),
        agreement_at_chosen=estimate(agreement(each.labels, families) for each in clusterings),
    )


def _mean_of_pairs(similarity: Floats) -> float:
    """Returns the mean over pairs of different tasks; NaN where there is one task."""
    pairs = similarity[np.triu_indices(len(similarity), 1)]
    return float(pairs.mean()) if len(pairs) else float("nan")


def _check_one_suite(records: Sequence[RunRecord]) -> None:
    """Raises unless there is a run, and all runs are of the same tasks."""
    suites = {(record.header.task_names, record.header.families) for record in records}
    if len(suites) != 1:
        raise ValueError(
            "`records` should be finished runs of the same tasks. Found "
            f"{len(records)} finished runs of {len(suites)} suites of tasks."
        )
