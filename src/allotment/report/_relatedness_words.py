"""Which tasks belong together, in words."""

from collections.abc import Sequence

from ..analysis import KnownFamilies, Relatedness, relatedness, separates
from ..records import RunRecord

from ._relatedness import SIMILARITY, apartness_text, learnt_rows, own_nearest_text, spread_text
from ._section import Section, has_many_tasks
from ._tables import NOTHING


def relatedness_words(part: Section) -> list[str]:
    """Returns which families are near each other, and how much each task uses of the network."""
    said = []
    for row, runs in learnt_rows(part):
        found = relatedness(runs)
        if found.known is not None and has_many_tasks(runs[0]):
            clauses = _family_words(found.known, runs)
            said += [f"{row.name}: {clause}." for clause in clauses]
        if found.known is not None and len(found.known.pairs) > 1:
            near, *_, far = found.known.pairs
            said.append(
                f"{row.name}: the families nearest to each other are {near.first} and "
                f"{near.second}, with a mean similarity of "
                f"{spread_text(near.similarity, SIMILARITY)}; in {near.n_nearest} of {len(runs)} "
                f"runs no other two are as near. The farthest are {far.first} and {far.second}, "
                f"with {spread_text(far.similarity, SIMILARITY)}."
            )
        if has_many_tasks(runs[0]):
            said.append(f"{row.name}: {_share_words(runs[0].header.task_names, found)}.")
    return said


def _family_words(known: KnownFamilies, runs: Sequence[RunRecord]) -> list[str]:
    """Returns what many tasks show of their families, clause by clause."""
    uniform = ", ".join(f"{each.name} {each.n_uniform} of {len(runs)}" for each in known.families)
    said = [f"runs in which all tasks of a family have one embedding: {uniform}"]
    # What has one row is near to itself and nothing else, and one family has no other.
    varied = [each for each in known.families if each.n_uniform < len(runs) and known.pairs]
    said += [
        f"{own_nearest_text(each)} of the {each.name} tasks are nearer to their own family than to "
        "any other"
        for each in varied
        if each.own_nearest.n
    ]
    said += [
        f"of all sets of as many different rows as {each.name} has, a share of "
        f"{apartness_text(each)} is as alike as its own, run by run"
        for each in varied
        if apartness_text(each) != NOTHING
    ]
    n_found = sum(separates(run) is True for run in runs)
    said.append(
        f"cut into {len(known.families)} clusters, the tree of the embeddings gives the families "
        f"in {n_found} of {len(runs)} runs"
    )
    return said


def _share_words(names: Sequence[str], found: Relatedness) -> str:
    order = sorted(range(len(names)), key=lambda task: found.shares[task].mean)
    least, most = order[0], order[-1]
    allowed = "" if found.budget is None else f"; the budget is {100 * found.budget:.0f} %"
    said = (
        f"a task has between {100 * found.shares[least].mean:.0f} % ({names[least]}) and "
        f"{100 * found.shares[most].mean:.0f} % ({names[most]}) of the gates open over runs"
    )
    if found.largest_share < 1:
        said += f", and no task in any run more than {100 * found.largest_share:.3g} %"
    return said + allowed
