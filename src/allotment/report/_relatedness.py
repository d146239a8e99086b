"""Which tasks belong together, as tables."""

from collections import Counter
from collections.abc import Sequence

from ..analysis import (
    Estimate,
    Family,
    KnownFamilies,
    Relatedness,
    agreement,
    cluster,
    cosine_similarity,
    cut,
    distinct_groups,
    embeddings,
    linkage,
    n_decimals,
    relatedness,
    typical_run,
)
from ..records import RunRecord

from ._expectation import ExpectedRow
from ._section import MANY_FAMILIES, Section, has_many_tasks
from ._tables import NOTHING, Table, interval_text

# What the numbers can be; embeddings are binary, so that no similarity is negative.
SIMILARITY, _AGREEMENT, _SILHOUETTE = (0.0, 1.0), (-0.5, 1.0), (-1.0, 1.0)


def learnt_rows(part: Section) -> list[tuple[ExpectedRow, list[RunRecord]]]:
    """Returns the methods that learnt an allocation worth a look, with their finished runs.

    It is worth one where the tasks have known families or are many.
    """
    return [
        (row, runs)
        for row, runs in part.learnt
        if runs[0].header.families or has_many_tasks(runs[0])
    ]


def relatedness_tables(part: Section) -> list[Table]:
    """Returns what the embeddings of each learnt method say, its families, and its groups."""
    rows = learnt_rows(part)
    if not rows:
        return []
    found = [relatedness(runs) for _, runs in rows]
    tables = [_side_by_side([row for row, _ in rows], found)]
    for (row, runs), each in zip(rows, found, strict=True):
        if each.known is not None and len(each.known.families) > 2:
            tables += family_tables(each.known, runs, row.name)
        typical = typical_run(runs)
        if typical is not None and has_many_tasks(typical):
            tables.append(group_table(typical, row.name))
    return tables


def relatedness_table(row: ExpectedRow, found: Relatedness) -> Table:
    """Returns what the embeddings of one method say, a line for each number."""
    return _side_by_side([row], [found])


def family_tables(known: KnownFamilies, runs: Sequence[RunRecord], name: str) -> list[Table]:
    """Returns the variety of the families, how alike they are, and what the tree makes of them."""
    tables = [_variety_table(known, name)]
    if len(known.families) <= MANY_FAMILIES:
        tables.append(_similarity_table(known, name))
    return [*tables, _cut_table(runs, name)]


def _variety_table(known: KnownFamilies, name: str) -> Table:
    return Table(
        head=(
            *("Family", "Tasks", "Distinct embeddings", "One embedding", "Own family is nearest"),
            "Sets of rows as alike",
        ),
        rows=tuple(
            (
                family.name,
                str(family.n_tasks),
                str(family.n_distinct),
                f"{family.n_uniform} of {family.n_distinct.n}",
                own_nearest_text(family),
                apartness_text(family),
            )
            for family in known.families
        ),
        caption=(
            f"Families of tasks, {name}: in how many runs all tasks have one embedding; for how "
            "many tasks no other family is as near; and the share of all sets of as many different "
            "rows that are as alike as the family's, run by run"
        ),
    )


def _similarity_table(known: KnownFamilies, name: str) -> Table:
    between = {frozenset((pair.first, pair.second)): pair for pair in known.pairs}
    names = [family.name for family in known.families]
    rows = []
    for family in known.families:
        cells = []
        for other in names:
            if other == family.name:
                cells.append(_beside_chance(family.within, family.within_by_chance))
            else:
                pair = between[frozenset((family.name, other))]
                cells.append(_beside_chance(pair.similarity, pair.by_chance))
        rows.append((family.name, *cells))
    return Table(
        head=("Similarity", *names),
        rows=tuple(rows),
        caption=(
            f"Mean cosine similarity of tasks, {name}, within families and between them, and what "
            "it would be by chance with as many gates open"
        ),
    )


def _cut_table(runs: Sequence[RunRecord], name: str) -> Table:
    families = runs[0].header.families
    rows = []
    for run in runs:
        labels = cut(linkage(cosine_similarity(embeddings(run))), len(set(families)))
        clusters = [
            " + ".join(f"{n} {family}" for family, n in sorted(Counter(members).items()))
            for label in sorted(set(labels))
            for members in [[f for f, own in zip(families, labels, strict=True) if own == label]]
        ]
        index = f"{agreement(labels, families):.2f}"
        rows.append((str(run.header.seed), index, "; ".join(clusters)))
    return Table(
        head=("Seed", "Adjusted Rand index", "Clusters"),
        rows=tuple(rows),
        caption=f"The tree of {name}, cut into as many clusters as there are families",
    )


def group_table(record: RunRecord, name: str) -> Table:
    """Returns the tasks with equal rows in one run, group by group and cluster by cluster."""
    rows, names = embeddings(record), record.header.task_names
    labels = cluster(cosine_similarity(rows)).labels
    groups = sorted(distinct_groups(rows), key=lambda group: labels[group[0]])
    return Table(
        head=("Cluster", "Tasks with one embedding", "Number", "Gates open"),
        rows=tuple(
            (
                str(labels[group[0]] + 1),
                ", ".join(names[task] for task in group),
                str(len(group)),
                f"{100 * rows[group[0]].mean():.0f} %",
            )
            for group in groups
        ),
        caption=f"Who shares an embedding, {name}, seed {record.header.seed}",
    )


def share_table(task_names: Sequence[str], found: Relatedness) -> Table:
    """Returns the share of open gates of each task, beside the budget."""
    allowed = "" if found.budget is None else f"; the budget is {100 * found.budget:.0f} %"
    rows = [
        (name, spread_text(share.scaled(100.0), (0.0, 100.0)))
        for name, share in zip(task_names, found.shares, strict=True)
    ]
    return Table(
        head=("Task", "Gates open, %"),
        rows=tuple(rows),
        caption=f"How much of the network each task uses{allowed}",
    )


def spread_text(value: Estimate, bounds: tuple[float, float]) -> str:
    """Returns a mean with the 90 % interval of it in brackets, if there are several runs."""
    if value.n == 0:
        return NOTHING
    if value.n == 1:
        return f"{value.mean:.3g} (one run)"
    mean = f"{value.mean:.{n_decimals(value.half_width)}f}"
    return f"{mean} ({interval_text(value, bounds)})"


def _beside_chance(value: Estimate, by_chance: Estimate) -> str:
    """Returns a similarity with its interval, and after it what chance would give."""
    if value.n == 0:
        return NOTHING
    return f"{spread_text(value, SIMILARITY)}; chance {by_chance.mean:.2f}"


def _side_by_side(rows: Sequence[ExpectedRow], found: Sequence[Relatedness]) -> Table:
    """Returns the numbers of several methods, a column for each."""
    lines: dict[str, list[str]] = {}
    for row, each in zip(rows, found, strict=True):
        for label, text in _lines(row, each).items():
            lines.setdefault(label, []).append(text)
    shown = {label: texts for label, texts in lines.items() if set(texts) != {NOTHING}}
    return Table(
        head=("Task embeddings", *(row.name for row in rows)),
        rows=tuple((label, *texts) for label, texts in shown.items()),
        caption=("Which tasks belong together, over runs; in brackets the 90 % interval of a mean"),
    )


def _lines(row: ExpectedRow, found: Relatedness) -> dict[str, str]:
    known = found.known
    return {
        "Distinct embeddings": str(found.n_distinct),
        "Distinct embeddings, paper": row.paper_distinct or NOTHING,
        "Clusters, chosen by silhouette": str(found.n_clusters),
        "Silhouette": spread_text(found.silhouette, _SILHOUETTE),
        "Adjusted Rand index between runs, chosen clusters": _number_text(found.stability),
        "Adjusted Rand index between runs, as many clusters as families": (
            _number_text(known.stability_at_known) if known else NOTHING
        ),
        "Adjusted Rand index with the families, as many clusters": (
            spread_text(known.agreement_at_known, _AGREEMENT) if known else NOTHING
        ),
        "Adjusted Rand index with the families, chosen clusters": (
            spread_text(known.agreement_at_chosen, _AGREEMENT) if known else NOTHING
        ),
        "Similarity within a family": (spread_text(known.within, SIMILARITY) if known else NOTHING),
        "Similarity across families": (spread_text(known.across, SIMILARITY) if known else NOTHING),
        "Similarity by chance, with as many gates open": spread_text(found.by_chance, SIMILARITY),
    }


def own_nearest_text(family: Family) -> str:
    """Returns for how many of a family's tasks no other is as near, and the same by chance."""
    if not family.own_nearest.n:
        return NOTHING
    chance = 100 * family.own_nearest_by_chance.mean
    return f"{100 * family.own_nearest.mean:.0f} % (chance {chance:.0f} %)"


def apartness_text(family: Family) -> str:
    """Returns the share of sets of rows that are as alike as a family's, run by run."""
    known = [share for share in family.apartness if share == share]
    return ", ".join(f"{share:.2g}" for share in known) or NOTHING


def _number_text(value: float) -> str:
    return NOTHING if value != value else f"{value:.2f}"
