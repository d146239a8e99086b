"""What the learnt allocations show, as tables: which tasks belong together, and who uses what."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

from sklearn.metrics import adjusted_rand_score

from ..analysis import (
    Estimate,
    Family,
    KnownFamilies,
    Relatedness,
    cluster,
    cosine_similarity,
    cut,
    distinct_groups,
    embeddings,
    linkage,
    usage_by_kind,
    used_shares,
)
from ..records import RunRecord
from ._section import ResultRow, Section
from ._table import NOTHING, Column, Table, make_table, number_text, p_text, runs_text, spread_text

# What the numbers can be; no entry of an embedding is negative, and so is no similarity.
SIMILARITY, _AGREEMENT, _SILHOUETTE = (0.0, 1.0), (-0.5, 1.0), (-1.0, 1.0)


def relatedness_tables(part: Section) -> list[Table]:
    """Returns what the embeddings of each learnt method say, its families, and its groups."""
    rows = part.related
    if not rows:
        return []
    tables = [relatedness_table(rows)]
    for row in rows:
        if row.relatedness.known is not None and row.display.families:
            tables += family_tables(row, row.relatedness.known)
        if row.typical is not None and row.display.task_by_task:
            tables.append(group_table(row, row.typical))
    return tables


Line = tuple[str, Callable[[ResultRow], str]]  # what a number is called, and its text for a method


def relatedness_table(rows: Sequence[ResultRow]) -> Table:
    """Returns what the embeddings of some methods say: a line for each number, and theirs beside.

    Lines about which no method says anything are left out.
    """

    def column(row: ResultRow) -> Column[Line]:
        return Column(row.name, lambda line: line[1](row))

    lines = [line for line in _lines() if any(line[1](row) != NOTHING for row in rows)]
    name: Column[Line] = Column("Task embeddings", lambda line: line[0], kind="name")
    caption = "Which tasks belong together, over runs; in brackets the 90 % interval of a mean"
    return make_table([name, *map(column, rows)], lines, caption)


def _lines() -> list[Line]:
    def found(text: Callable[[Relatedness], str]) -> Callable[[ResultRow], str]:
        return lambda row: text(row.relatedness)

    def known(text: Callable[[KnownFamilies], str]) -> Callable[[ResultRow], str]:
        return found(lambda each: NOTHING if each.known is None else text(each.known))

    def distinct(row: ResultRow) -> str:
        return str(row.relatedness.n_distinct) if row.display.is_binary else NOTHING

    return [
        ("Distinct embeddings", distinct),
        ("Distinct embeddings, paper", lambda row: row.spec.paper_distinct or NOTHING),
        ("Clusters, chosen by silhouette", found(lambda each: str(each.n_clusters))),
        ("Silhouette", found(lambda each: spread_text(each.silhouette, _SILHOUETTE))),
        (
            "Adjusted Rand index between runs, chosen clusters",
            found(lambda each: number_text(each.stability)),
        ),
        (
            "Adjusted Rand index between runs, as many clusters as families",
            known(lambda each: number_text(each.stability_at_known)),
        ),
        (
            "Adjusted Rand index with the families, as many clusters",
            known(lambda each: spread_text(each.agreement_at_known, _AGREEMENT)),
        ),
        (
            "Adjusted Rand index with the families, chosen clusters",
            known(lambda each: spread_text(each.agreement_at_chosen, _AGREEMENT)),
        ),
        ("Similarity within a family", known(lambda each: spread_text(each.within, SIMILARITY))),
        ("Similarity across families", known(lambda each: spread_text(each.across, SIMILARITY))),
        (
            "Similarity by chance, with each task's gates shuffled",
            found(lambda each: spread_text(each.by_chance, SIMILARITY)),
        ),
    ]


def family_tables(row: ResultRow, known: KnownFamilies) -> list[Table]:
    """Returns the variety of the families, how alike they are, and what the tree makes of them."""
    tables = [_variety_table(known, row)]
    if row.display.families_compared:
        tables.append(_similarity_table(known, row.name))
    return [*tables, _cut_table(row.finished, row.name)]


def _variety_table(known: KnownFamilies, row: ResultRow) -> Table:
    columns: list[Column[Family]] = [
        Column("Family", lambda family: family.name, kind="name"),
        Column("Tasks", lambda family: str(family.n_tasks)),
        Column("Own family is nearest", own_nearest_text),
        Column("Permutation test, p", p_values_text, kind="text"),
    ]
    caption = "for how many tasks no other family is as near"
    if row.display.is_binary:
        columns[2:2] = [
            Column("Distinct embeddings", lambda family: str(family.n_distinct)),
            Column("One embedding", lambda family: f"{family.n_uniform} of {family.n_distinct.n}"),
        ]
        caption = f"in how many runs all tasks have one embedding; {caption}"
    caption = (
        f"Families of tasks, {row.name}: {caption}; and, run by run, the p-value of a permutation "
        "test: the share of all sets of as many different rows that are as alike as the family's"
    )
    return make_table(columns, known.families, caption)


def _similarity_table(known: KnownFamilies, name: str) -> Table:
    between = {frozenset((pair.first, pair.second)): pair for pair in known.pairs}

    def cell(other: Family, family: Family) -> str:
        if other is family:
            return _beside_chance(family.within, family.within_by_chance)
        pair = between[frozenset((family.name, other.name))]
        return _beside_chance(pair.similarity, pair.by_chance)

    columns = [
        Column[Family]("Similarity", lambda family: family.name, kind="name"),
        *(Column(each.name, partial(cell, each), kind="text") for each in known.families),
    ]
    caption = (
        f"Mean cosine similarity of tasks, {name}, within families and between them, and what "
        "it would be by chance with each task's gates shuffled"
    )
    return make_table(columns, known.families, caption)


def _cut_table(runs: Sequence[RunRecord], name: str) -> Table:
    families = runs[0].header.families

    def labels(run: RunRecord) -> tuple[int, ...]:
        return cut(linkage(cosine_similarity(embeddings(run))), len(set(families)))

    def clusters(run: RunRecord) -> str:
        members: dict[int, Counter[str]] = {}
        for label, family in sorted(zip(labels(run), families, strict=True)):
            members.setdefault(label, Counter())[family] += 1
        return "; ".join(
            " + ".join(f"{n} {family}" for family, n in counts.items())
            for counts in members.values()
        )

    columns: list[Column[RunRecord]] = [
        Column("Seed", lambda run: str(run.header.seed)),
        Column(
            "Adjusted Rand index", lambda run: f"{adjusted_rand_score(labels(run), families):.2f}"
        ),
        Column("Clusters", clusters, kind="text"),
    ]
    return make_table(
        columns, runs, f"The tree of {name}, cut into as many clusters as there are families"
    )


def group_table(row: ResultRow, record: RunRecord) -> Table:
    """Returns the tasks with equal rows in one run, cluster by cluster; or the clusters alone.

    Clusters alone are shown where rows hold shares, which are never equal.
    """
    rows, names, used = embeddings(record), record.header.task_names, used_shares(record)
    found = cluster(cosine_similarity(rows))
    groups = found.members
    if row.display.is_binary:
        groups = sorted(distinct_groups(rows), key=lambda group: found.labels[group[0]])
    tasks = "Tasks with one embedding" if row.display.is_binary else "Tasks"
    columns: list[Column[list[int]]] = [
        Column("Cluster", lambda group: str(found.labels[group[0]] + 1)),
        Column(tasks, lambda group: ", ".join(names[task] for task in group), kind="text"),
        Column("Number", lambda group: str(len(group))),
        Column(row.display.use, lambda group: f"{100 * used[group].mean():.0f} %"),
    ]
    what = "Who shares an embedding" if row.display.is_binary else "Who is in which cluster"
    caption = f"{what}, {row.name}, seed {record.header.seed}"
    if not rows.any(axis=1).all():
        caption += "; tasks that use nothing stand together, which does not make them alike"
    return make_table(columns, groups, caption)


def share_table(row: ResultRow) -> Table:
    """Returns the share of the network that each task uses, beside the budget."""
    names, found = row.finished[0].header.task_names, row.relatedness
    columns: list[Column[int]] = [
        Column("Task", lambda task: names[task], kind="name"),
        Column(
            f"{row.display.use}, %",
            lambda task: spread_text(found.shares[task].scaled(100.0), (0.0, 100.0)),
        ),
    ]
    caption = f"How much of the network each task uses{budget_text(found)}"
    return make_table(columns, range(len(names)), caption)


def budget_text(found: Relatedness) -> str:
    """Returns what the budget is, to end a sentence with; nothing where there is none."""
    return "" if found.budget is None else f"; the budget is {100 * found.budget:.0f} %"


def own_nearest_text(family: Family) -> str:
    """Returns for how many of a family's tasks no other is as near, and the same by chance."""
    if not family.own_nearest.n:
        return NOTHING
    chance = 100 * family.own_nearest_by_chance.mean
    return f"{100 * family.own_nearest.mean:.0f} % (chance {chance:.0f} %)"


def p_values_text(family: Family) -> str:
    """Returns the p-values of the permutation test of a family, run by run."""
    known = [p for p in family.p_values if p == p]
    return ", ".join(p_text(p, ".2g") for p in known) or NOTHING


def _beside_chance(value: Estimate, by_chance: Estimate) -> str:
    """Returns a similarity with its interval, and after it what chance would give."""
    if value.n == 0:
        return NOTHING
    return f"{spread_text(value, SIMILARITY)}; chance {by_chance.mean:.2f}"


def usage_tables(part: Section) -> list[Table]:
    """Returns the usage of each learnt method, where components have kinds and layers."""
    tables = []
    for row in part.learnt:
        if row.display.usage:
            tables.append(usage_table(row))
        if row.display.usage_by_family:
            tables.append(usage_table(row, by_family=True))
    return tables


def usage_table(row: ResultRow, *, by_family: bool = False) -> Table:
    """Returns how much each layer, or each family in it, uses each kind, in percent."""
    families, runs = row.finished[0].header.families, row.finished
    usages, by = {NOTHING: usage_by_kind(runs)}, "by layer and kind"
    if by_family:
        by = "by family, layer and kind"
        members = {name: [t for t, own in enumerate(families) if own == name] for name in families}
        usages = {name: usage_by_kind(runs, tasks) for name, tasks in members.items()}
    first = next(iter(usages.values()))

    def share(place: int, item: tuple[str, int]) -> str:
        return number_text(100 * float(usages[item[0]].shares[item[1], place]), ".0f")

    columns: list[Column[tuple[str, int]]] = [
        Column("Family", lambda item: item[0], kind="name", optional=True),
        Column("Layer", lambda item: str(item[1] + 1)),
        *(Column(kind, partial(share, place)) for place, kind in enumerate(first.kinds)),
    ]
    what, differ = "Share of a layer's weight", "how much of it differs"
    if row.display.is_binary:
        what, differ = "Gates open", "how often a gate differs"
    caption = f"{what} {by}, {row.name}, % over tasks and {runs_text(len(runs))}"
    if not by_family:
        columns.append(Column("Tasks differ", lambda item: f"{100 * first.diversity[item[1]]:.0f}"))
        caption += f"; and {differ} between two tasks, %"
    return make_table(columns, product(usages, range(len(first.shares))), caption)
