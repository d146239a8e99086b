"""Which way of sharing a training speaks for: from its baselines, or from its own numbers alone."""

from typing import TYPE_CHECKING

import numpy as np

from .._advice import (
    CANNOT_TELL,
    LEARNT,
    SEPARATE,
    SHARED,
    Advice,
    Verdict,
    compare,
    costs_by_way,
    listed,
    percent,
)
from .._checks import described
from .._schema import Floats

if TYPE_CHECKING:  # which has a line of advice when it is printed
    from ._result import FitResult

UNDECIDED = (0.1, 0.9)  # a gate between has not settled
MANY_UNDECIDED = 0.25
OVERFITTED = 1.5  # validation loss over training loss
UNEVEN = 10  # times as many examples

_COMPARE = (
    "`fit(..., baselines=True)` trains a shared bottom and separate networks beside it, and "
    "compares them over seeds."
)
_TAKE = {
    LEARNT: "Keep this network; `extract` gives what one task uses of it.",
    SHARED: "`result.baselines.network('shared bottom')` is trained so; in a network of your own "
    'it is `SharedBottom(n_tasks, n_components, reduce="mean")` in place of the gates.',
    SEPARATE: "`result.baselines.network('separate networks')` is trained so; in a network of your "
    "own it is `NoSharing(n_tasks, n_components)`, with as many components as tasks or a multiple.",
}


def advise(result: "FitResult") -> Advice:
    """Returns which way of sharing serves the tasks of a training best, why, and what to try next.

    With ``fit(..., baselines=True)`` three ways are compared on validation, seed by seed. Without,
    there are the training's own numbers alone, which seldom decide: what the gates separated, how
    many have not settled, where tasks overfit.

    >>> import torch
    >>> from torch import nn
    >>> from allotment import GumbelMatrix, ModularLayer, MultiTaskNetwork, Task
    >>> from allotment import TrainingSettings, advise, fit
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(60, 4)
    >>> y = x[:, 0].sin()
    >>> parts = (x[:30], y[:30]), (x[30:], y[30:])
    >>> tasks = [Task("a", *parts), Task("b", parts[0], (x[30:], -y[30:]))]
    >>> layer = ModularLayer([nn.Linear(4, 1) for _ in range(2)], GumbelMatrix(2, 2))
    >>> network = MultiTaskNetwork(None, [layer], task_names=["a", "b"])
    >>> result = fit(network, tasks, TrainingSettings(rounds=10))
    >>> advise(result).recommendation
    'cannot tell'
    >>> print(advise(result).next_steps[0])
    `fit(..., baselines=True)` trains a shared bottom and separate networks beside it, and \
compares them over seeds.

    Args:
        result: What `fit` returned, best with ``baselines=True``.
    """
    from ._result import FitResult as Result  # here, since it has a line of advice when printed

    if not isinstance(result, Result):
        raise TypeError(f"`result` should be what `fit` returned. Found {described(result)}.")
    own = _own_reasons(result)
    if result.baselines is None:
        recommendation, why = _by_structure(result)
        reasons = (f"No comparison was made; `fit(..., baselines=True)` makes one. {why}", *own)
        return Advice(
            recommendation=recommendation,
            reasons=reasons,
            next_steps=(_COMPARE, *_next_steps(result)),
        )
    what, costs = costs_by_way(result.baselines.outcomes, result.baselines.by)
    verdict = compare(costs, f"validation {what}")
    first = _TAKE.get(verdict.recommendation, _more_evidence(result))
    return Advice(
        recommendation=verdict.recommendation,
        reasons=(verdict.reason, *_exceptions(result, verdict), *_limits(result), *own),
        next_steps=(first, *_next_steps(result)),
    )


def _by_structure(result: "FitResult") -> tuple[str, str]:
    """Returns what the gates alone speak for, and the sentence that says so."""
    rows, undecided = result.embeddings, _share_undecided(result)
    if not result.is_learnt or not result.is_binary or len(rows) < 2:
        return CANNOT_TELL, "Who uses what was not learnt by gates of several tasks."
    if undecided > MANY_UNDECIDED:
        return CANNOT_TELL, f"{percent(undecided)} of the gates have not settled."
    if rows.all():
        return SHARED, "Every task uses every component, which a shared bottom does more simply."
    overlap, _ = _overlap(rows[None])
    if overlap == 0 and not result.dead():
        return SEPARATE, "No component is used by two tasks, which separate networks do too."
    return CANNOT_TELL, f"On average two tasks share {percent(overlap)} of what they use."


def _overlap(matrices: Floats) -> tuple[float, float]:
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


def _share_undecided(result: "FitResult") -> float:
    p = result.probabilities
    return float(((p > UNDECIDED[0]) & (p < UNDECIDED[1])).mean())


def _own_reasons(result: "FitResult") -> list[str]:
    """Returns what else the numbers of the training itself show."""
    said = [*_of_groups(result), *_of_overfitting(result), *_of_sizes(result)]
    undecided = _share_undecided(result)
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


def _exceptions(result: "FitResult", verdict: Verdict) -> list[str]:
    found = [
        f"{result.task_names[task]} ({way}, {gap})"
        for task, (way, gap) in verdict.exceptions.items()
    ]
    return [f"Tasks that do better another way: {listed(found)}."] if found else []


def _limits(result: "FitResult") -> list[str]:
    """Returns what a comparison leaves out, and how far its seeds agree on the gates."""
    assert result.baselines is not None
    said = []
    if not result.baselines.has_own_splits:
        said.append(
            "Tasks without a validation split: training examples were held out, or new ones drawn, "
            "and learnt gates trained anew for the comparison."
        )
    if result.baselines.shares_rest:
        said.append("Parts outside of modular layers and heads are shared in all three.")
    matrices = np.array([o.matrix for o in result.baselines.outcomes[LEARNT]])  # [S, T, C]
    if result.is_binary and matrices.size and matrices.shape[1] > 1:
        overlap, spread = _overlap(matrices)
        said.append(
            f"On average two tasks share {percent(overlap)} of what they use, which differs by "
            f"{percent(spread)} (sd) between seeds."
        )
    return said


def _more_evidence(result: "FitResult") -> str:
    assert result.baselines is not None
    n = 3 * len(result.baselines.outcomes[LEARNT])
    return f"`fit(..., baselines={n})`: more seeds, or more validation examples."


def _next_steps(result: "FitResult") -> list[str]:
    """Returns what the training's own numbers suggest to try."""
    said = []
    if result.is_binary and _share_undecided(result) > MANY_UNDECIDED:
        said.append("More `rounds`, or a larger `allocation_learning_rate`: gates should settle.")
    if result.dead():
        said.append("`disconnect_weight=1.0` keeps a component open for each task.")
    if _overfitted(result):
        checks = "" if result.best_round is not None else "`evaluate_every=50` with "
        said.append(f"{checks}`patience`, or `weight_decay`, against overfitting.")
    if result.validation is None:
        said.append("`Task(validation=...)`: examples to choose by.")
    return said
