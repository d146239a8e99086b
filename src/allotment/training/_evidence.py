"""What the numbers of one training speak for by themselves, and what they suggest to try."""

from collections.abc import Sequence
from itertools import pairwise
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from .._advice import (
    CANNOT_TELL,
    CONFIDENCE,
    SEPARATE,
    SETTLE,
    SHARED,
    UNDECIDED,
    listed,
    percent,
    share_undecided,
)
from .._schema import Floats

if TYPE_CHECKING:  # which has a line of advice when it is printed
    from ._result import FitResult

MANY_UNDECIDED = 0.25
OVERFITTED = 1.5  # validation loss over training loss
UNEVEN = 10  # times as many examples


def by_structure(result: "FitResult") -> tuple[str, str]:
    """Returns what the gates alone speak for, and the sentence that says so."""
    rows, undecided = result.embeddings, share_undecided(result.probabilities)
    if not result.is_learnt or not result.is_binary or len(rows) < 2:
        return CANNOT_TELL, "Who uses what was not learnt by gates of several tasks."
    if undecided > MANY_UNDECIDED:
        return CANNOT_TELL, f"{percent(undecided)} of the gates have not settled: {SETTLE}."
    if rows.all():
        return SHARED, "Every task uses every component, which a shared bottom does more simply."
    mean, _ = overlap(rows[None])
    if mean == 0 and not result.dead():
        chance = _chance_of_none_shared(rows, result.layer_sizes)
        said = f"No component is used by two tasks, as in {percent(chance)} of draws by chance."
        return SEPARATE if chance <= 1 - CONFIDENCE else CANNOT_TELL, said
    return CANNOT_TELL, f"On average two tasks share {percent(mean)} of what they use."


def _chance_of_none_shared(rows: Floats, layer_sizes: Sequence[int]) -> float:
    """Returns how likely no component is used by two tasks, were each task's drawn by lot.

    Each task draws as many in each layer as it uses.
    """
    chance, starts = 1.0, np.cumsum([0, *layer_sizes])
    for first, end in pairwise(starts):
        n = n_free = int(end - first)
        for n_used in map(int, (rows[:, first:end] > 0).sum(axis=1)):
            chance *= comb(n_free, n_used) / comb(n, n_used)
            n_free -= n_used
    return chance


def overlap(matrices: Floats) -> tuple[float, float]:
    """Returns the share of their components that two tasks both use, a mean over all pairs.

    Beside it stands by how much it differs (sd) between ``S`` matrices, ``[S, T, C]``. Pairs are
    looked at task by task, since all of them at once would be too many for thousands of tasks.
    """
    used = (matrices != 0).astype(np.float64)
    sizes, n_tasks = used.sum(axis=2), used.shape[1]  # [S, T]
    total = spread = 0.0
    for task in range(n_tasks - 1):
        both = (used[:, task + 1 :] @ used[:, task, :, None]).squeeze(2)  # [S, later tasks]
        either = sizes[:, task, None] + sizes[:, task + 1 :] - both
        shares = both / np.maximum(either, 1.0)
        total += float(shares.mean(axis=0).sum())
        spread += float(shares.std(axis=0, ddof=1).sum()) if len(shares) > 1 else 0.0
    n_pairs = n_tasks * (n_tasks - 1) / 2
    return total / n_pairs, spread / n_pairs


def own_reasons(result: "FitResult") -> list[str]:
    """Returns what else the numbers of the training itself show."""
    said = [*_of_groups(result), *_of_overfitting(result), *_of_sizes(result)]
    undecided = share_undecided(result.probabilities)
    if result.is_binary and undecided > 0.0:
        said.append(
            f"{percent(undecided)} of the gates have a probability between {UNDECIDED[0]} and "
            f"{UNDECIDED[1]}."
        )
    if result.dead():
        said.append(f"Tasks that use nothing of some layer: {listed(list(result.dead()))}.")
    return said


def _of_groups(result: "FitResult") -> list[str]:
    """Returns which tasks have equal rows, where there are several groups of them."""
    if not result.is_learnt or not result.is_binary:
        return []
    groups: dict[bytes, list[str]] = {}
    for name, row in zip(result.task_names, result.embeddings, strict=True):
        groups.setdefault((row > 0).tobytes(), []).append(name)
    families = [" ".join(names) for names in groups.values() if len(names) > 1]
    if not families or len(groups) == 1:
        return []
    return [
        f"The gates made {len(groups)} groups of {len(result.task_names)} tasks; those that use "
        f"the same: {'; '.join(families[:4])}{'; ...' * (len(families) > 4)}."
    ]


def _overfitted(result: "FitResult") -> dict[str, tuple[float, float]]:
    """Returns training and validation loss of tasks whose second is far above the first."""
    if result.validation is None:
        return {}
    pairs = zip(result.task_names, result.training_losses(), result.validation.losses, strict=True)
    return {name: (a, b) for name, a, b in pairs if a > 0 and b > OVERFITTED * a}


def _of_overfitting(result: "FitResult") -> list[str]:
    found = _overfitted(result)
    if not found:
        return []
    worst = max(found, key=lambda name: found[name][1] / found[name][0])
    here, there = found[worst]
    return [
        f"{len(found)} of {len(result.task_names)} tasks overfit; {worst!r} most, with a "
        f"validation loss of {there:.3g} beside {here:.3g} in training."
    ]


def _of_sizes(result: "FitResult") -> list[str]:
    """Returns which task has few examples, where another has many."""
    known = {name: n for name, n in result.n_examples.items() if n is not None}
    if not known:
        return []
    least, most = min(known, key=lambda name: known[name]), max(known, key=lambda n: known[n])
    if known[most] < UNEVEN * known[least]:
        return []
    return [f"Task {least!r} has {known[least]:,} examples, and {most!r} has {known[most]:,}."]


_AGAINST_OVERFITTING = {  # by whether the best round is kept already
    True: "`weight_decay`, against overfitting.",
    False: "`evaluate_every=50`, which keeps the best round, or `weight_decay`, against "
    "overfitting.",
}


def next_steps(result: "FitResult") -> list[str]:
    """Returns what the training's own numbers suggest to try."""
    said, best = [], result.best_round
    is_early = best is not None and best <= result.rounds / 2  # more rounds made it worse
    if result.is_binary and share_undecided(result.probabilities) > MANY_UNDECIDED:
        more = "A" if is_early else "More `rounds`, or a"
        said.append(f"{more} larger `allocation_learning_rate`: gates should settle.")
    if result.dead():
        said.append("`disconnect_weight=1.0` keeps a component open for each task.")
    if is_early and result.rounds == result.rounds_planned:
        said.append(
            f"`patience` ends a training sooner: validation was best at round {best:,} of "
            f"{result.rounds:,}."
        )
    if _overfitted(result):
        said.append(_AGAINST_OVERFITTING[best is not None])
    if result.validation is None:
        said.append("`Task(validation=...)`: examples to choose by.")
    return said
