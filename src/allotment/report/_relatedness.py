"""Which tasks belong together, as tables and in words."""

from collections.abc import Sequence

from allotment.analysis import (
    Estimate,
    KnownFamilies,
    Relatedness,
    cluster,
    cosine_similarity,
    distinct_groups,
    embeddings,
    n_decimals,
    relatedness,
    separates,
    typical_run,
)
from allotment.records import RunRecord

from ._expectation import ExpectedRow
from ._section import Section, has_many_tasks
from ._tables import NOTHING, Table, interval_text

# What the numbers can be; embeddings are binary, so that no similarity is negative.
_SIMILARITY, _AGREEMENT, _SILHOUETTE = (0.0, 1.0), (-0.5, 1.0), (-1.0, 1.0)
_MANY_FAMILIES = 6  # more are not set beside each other


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
            tables.append(family_table(each.known, row.name))
        typical = typical_run(runs)
        if typical is not None and has_many_tasks(typical):
            tables.append(group_table(typical, row.name))
    return tables


def relatedness_words(part: Section) -> list[str]:
    """Returns which families are near each other, and how much each task uses of the network."""
    said = []
    for row, runs in learnt_rows(part):
        found = relatedness(runs)
        if found.known is not None and has_many_tasks(runs[0]):
            said.append(f"{row.name}: {_uniform_words(found.known, len(runs))}.")
            said.append(
                f"{row.name}: the task most similar to a task is of its own family for "
                f"{100 * found.known.nearest.mean:.3g} % of the tasks, over runs; cut into as many "
                f"clusters as there are families, the embeddings give the families in "
                f"{sum(separates(run) is True for run in runs)} of {len(runs)}."
            )
        if found.known is not None and len(found.known.pairs) > 1:
            near, *_, far = found.known.pairs
            said.append(
                f"{row.name}: the families nearest to each other are {near.first} and "
                f"{near.second}, with a mean similarity of "
                f"{spread_text(near.similarity, _SIMILARITY)}, in {near.n_nearest} of {len(runs)} "
                f"runs nearer than any other two; the farthest are {far.first} and "
                f"{far.second}, with {spread_text(far.similarity, _SIMILARITY)}."
            )
        if has_many_tasks(runs[0]):
            said.append(f"{row.name}: {_share_words(runs[0].header.task_names, found)}.")
    return said


def relatedness_table(row: ExpectedRow, found: Relatedness) -> Table:
    """Returns what the embeddings of one method say, a line for each number."""
    return _side_by_side([row], [found])


def family_table(known: KnownFamilies, name: str) -> Table:
    """Returns the families with their variety and their similarity to each other."""
    between = {(pair.first, pair.second): pair for pair in known.pairs}
    others = known.families if len(known.families) <= _MANY_FAMILIES else ()
    rows = []
    for family in known.families:
        pairs = [
            between.get((family.name, other.name)) or between.get((other.name, family.name))
            for other in others
        ]
        rows.append(
            (
                family.name,
                str(family.n_tasks),
                str(family.n_distinct),
                f"{family.n_uniform} of {family.n_distinct.n}",
                _beside_chance(family.within, family.within_by_chance),
                *(
                    NOTHING if pair is None else _beside_chance(pair.similarity, pair.by_chance)
                    for pair in pairs
                ),
            )
        )
    head = ("Family", "Tasks", "Distinct embeddings", "One embedding", "Similarity within")
    return Table(
        head=(*head, *(f"to {other.name}" for other in others)),
        rows=tuple(rows),
        caption=(
            f"Families of tasks, {name}, with the mean cosine similarity of their tasks, and what "
            "it would be by chance with as many gates open"
        ),
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
    return f"{spread_text(value, _SIMILARITY)}; chance {by_chance.mean:.2f}"


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
        "Adjusted Rand index between runs": (
            NOTHING if found.stability != found.stability else f"{found.stability:.2f}"
        ),
        "Adjusted Rand index with the families, as many clusters": (
            spread_text(known.agreement_at_known, _AGREEMENT) if known else NOTHING
        ),
        "Adjusted Rand index with the families, chosen clusters": (
            spread_text(known.agreement_at_chosen, _AGREEMENT) if known else NOTHING
        ),
        "Tasks whose most similar task is of their family, %": (
            spread_text(known.nearest.scaled(100.0), (0.0, 100.0)) if known else NOTHING
        ),
        "Similarity within a family": (
            spread_text(known.within, _SIMILARITY) if known else NOTHING
        ),
        "Similarity across families": (
            spread_text(known.across, _SIMILARITY) if known else NOTHING
        ),
        "Similarity by chance, with as many gates open": spread_text(found.by_chance, _SIMILARITY),
    }


def _uniform_words(known: KnownFamilies, n_runs: int) -> str:
    uniform = ", ".join(f"{each.name} {each.n_uniform} of {n_runs}" for each in known.families)
    return f"runs in which all tasks of a family have one embedding: {uniform}"


def _share_words(names: Sequence[str], found: Relatedness) -> str:
    order = sorted(range(len(names)), key=lambda task: found.shares[task].mean)
    least, most = order[0], order[-1]
    most_of_all = f"at most {100 * found.largest_share:.3g} % in any run"
    allowed = "" if found.budget is None else f"; the budget is {100 * found.budget:.0f} %"
    return (
        f"a task has between {100 * found.shares[least].mean:.0f} % ({names[least]}) and "
        f"{100 * found.shares[most].mean:.0f} % ({names[most]}) of the gates open over runs, "
        f"{most_of_all}{allowed}"
    )
