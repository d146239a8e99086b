"""Which way of sharing a training speaks for: from its baselines, or from its own numbers alone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._advice import (
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
from .._schema import Floats, Outcome
from ._evidence import by_structure, next_steps, overlap, own_reasons

if TYPE_CHECKING:  # which has a line of advice when it is printed
    from ._result import FitResult

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
    own = own_reasons(result)
    if result.baselines is None:
        recommendation, why = by_structure(result)
        reasons = (f"No comparison was made; `fit(..., baselines=True)` makes one. {why}", *own)
        return Advice(
            recommendation=recommendation,
            reasons=reasons,
            next_steps=(_COMPARE, *next_steps(result)),
        )
    what, costs = costs_by_way(result.baselines.outcomes, result.baselines.by)
    gates = _gates(result.baselines.outcomes[LEARNT]) if result.is_binary else None
    verdict = compare(costs, f"validation {what}", gates)
    first = _TAKE.get(verdict.recommendation, _more_evidence(result))
    return Advice(
        recommendation=verdict.recommendation,
        reasons=(verdict.reason, *_exceptions(result, verdict), *_limits(result), *own),
        next_steps=(first, *next_steps(result)),
    )


def _gates(outcomes: Sequence[Outcome]) -> Floats:
    """Returns the probabilities of the gates that several runs learnt, ``[S, T, C]``."""
    return np.array([outcome.probabilities for outcome in outcomes])


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
        mean, spread = overlap(matrices)
        said.append(
            f"On average two tasks share {percent(mean)} of what they use, which differs by "
            f"{percent(spread)} (sd) between seeds."
        )
    return said


def _more_evidence(result: "FitResult") -> str:
    assert result.baselines is not None
    n = 3 * len(result.baselines.outcomes[LEARNT])
    return f"`fit(..., baselines={n})`: more seeds, or more validation examples."
