"""Which way of sharing to take: a recommendation with its reasons, from runs paired by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from ._schema import Evaluation, Floats, Outcome

LEARNT, SHARED, SEPARATE = "learnt gates", "shared bottom", "separate networks"
WAYS = (SHARED, SEPARATE, LEARNT)  # the simplest first
CANNOT_TELL = "cannot tell"
MARGIN = 0.05  # a larger difference on average, still within chance, leaves the question open
CONFIDENCE = 0.9  # of every interval
MOST_LISTED = 3  # names in a row; further ones are counted
UNDECIDED = (0.1, 0.9)  # a gate between has not settled
SETTLE = "set a larger `allocation_learning_rate`"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Which way of sharing serves some tasks best; `print` shows it.

    >>> advice = Advice(recommendation="shared bottom", reasons=("None is better.",), next_steps=())
    >>> advice.line
    'Advice: shared bottom. None is better.'

    Attributes:
        recommendation: "learnt gates", "shared bottom", "separate networks" or "cannot tell".
        reasons: What it rests on, a sentence each with its numbers; the first one decides.
        next_steps: What to try next, a sentence each.
    """

    recommendation: str
    reasons: tuple[str, ...]
    next_steps: tuple[str, ...]

    @property
    def line(self) -> str:
        """The recommendation and what decides it."""
        return f"Advice: {self.recommendation}. {self.reasons[0]}"

    def __str__(self) -> str:
        lines = [f"Advice: {self.recommendation}", *(f"- {reason}" for reason in self.reasons)]
        return "\n".join([*lines, "Next:", *(f"- {step}" for step in self.next_steps)])


class Gap(NamedTuple):
    """How much worse one way is than another, as a share: the mean over seeds and its interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        mean, low, high = (f"{100 * value:+z.0f}" for value in self)
        return f"{mean} % ({low} to {high})"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What runs of several ways, paired by seed, say of them.

    Attributes:
        recommendation: One of the ways, or "cannot tell".
        reason: The numbers that decide it.
        exceptions: Tasks, by place, that do better another way: which one, and by how much.
    """

    recommendation: str
    reason: str
    exceptions: Mapping[int, tuple[str, Gap]]


def compare(
    costs: Mapping[str, Floats], what: str = "validation loss", gates: Floats | None = None
) -> Verdict:
    """Returns which way costs least, given a cost for each seed and task, ``[S, T]`` by way.

    Less is better. Each task counts alike: costs are relative to its mean over all runs. The
    simplest way is recommended that no other beats; a way beats another where the 90 % t interval
    of their difference, seed by seed, lies above 0. Where it is behind the best one by more than
    5 % on average, and yet within chance, the question is open.

    Tasks without a number are left out, and so are seeds of which some run failed.

    Args:
        costs: Of each way.
        what: Each cost is.
        gates: Probabilities of those that were learnt, in any shape. Where most have not settled,
            the reason begins with it, unless they are recommended all the same.
    """
    known = _relative({way: costs[way] for way in WAYS if way in costs})
    n_seeds = len(next(iter(known.values())))
    if n_seeds < 2 or len(known) < 2:
        found = f"{n_seeds} seed{'s' * (n_seeds != 1)} with a number for {' and '.join(known)}"
        reason = f"There is nothing to compare by: {found}; two seeds of two ways are needed."
        return Verdict(recommendation=CANNOT_TELL, reason=reason, exceptions={})
    means = {way: np.nanmean(of, axis=1) for way, of in known.items()}  # [S]
    best = min(means, key=lambda way: float(means[way].mean()))
    # The best one at the latest: it is not behind itself.
    chosen = next(way for way in means if gap(means[way], means[best]).low <= 0)
    if gap(means[chosen], means[best]).mean > MARGIN:
        reason = _unsettled(gates) + _reason(means, best, what)
        return Verdict(recommendation=CANNOT_TELL, reason=reason, exceptions={})
    caveat = "" if chosen == LEARNT else _unsettled(gates)
    return Verdict(
        recommendation=chosen,
        reason=caveat + _reason(means, chosen, what),
        exceptions=_exceptions(known, chosen),
    )


def best_run(outcomes: Mapping[str, Sequence[Outcome]], by: str) -> tuple[str, int]:
    """Returns which run does best on validation: its way, and its place among the way's runs.

    Tasks count alike, relative to their mean over all runs; a run that failed is never the best.
    """
    what, costs = costs_by_way(outcomes, by)
    ends = np.concatenate(list(costs.values()))  # [W * S, T]
    is_whole = ~np.isinf(ends).any(axis=1)
    if not is_whole.any():
        raise ValueError(f"One run should have a finite validation {what}. Found none.")
    scale = np.abs(ends[is_whole]).mean(axis=0)
    scale[scale == 0] = 1.0
    places = [(way, place) for way, own in costs.items() for place in range(len(own))]
    means = [np.nanmean(costs[way][place] / scale) for way, place in places]
    return places[int(np.argmin(means))]


def means_by_way(
    outcomes: Mapping[str, Sequence[Outcome]], by: str
) -> tuple[str, dict[str, Floats]]:
    """Returns what ways are compared by, and each task's mean over the seeds, ``[T]`` by way.

    Metrics have the sign that they were given, and a run that failed makes a mean infinite.
    """
    what, costs = costs_by_way(outcomes, by)
    is_turned = what not in ("loss", "error") and not what.startswith("-")  # more is better
    sign = -1.0 if is_turned else 1.0
    return what.removeprefix("-"), {way: sign * own.mean(axis=0) for way, own in costs.items()}


def costs_by_way(
    outcomes: Mapping[str, Sequence[Outcome]], by: str
) -> tuple[str, dict[str, Floats]]:
    """Returns what ways are compared by, and a cost for each seed and task, ``[S, T]`` by way."""
    seen = [o.validation for own in outcomes.values() for o in own if o.validation is not None]
    name, first = _cost(seen[0], by)

    def cost(outcome: Outcome) -> Floats:
        if outcome.status != "finished" or outcome.validation is None:
            return np.full_like(first, np.inf)  # of a run that failed: no number for any task
        return _cost(outcome.validation, by)[1]

    return name, {way: np.stack([cost(o) for o in own]) for way, own in outcomes.items()}


def _cost(seen: Evaluation, by: str) -> tuple[str, Floats]:
    """Returns what a check is judged by, as `keep_best` names it, and each task's, less is better.

    Where it names nothing, that is the error where all tasks classify, and else the loss.
    """
    name = by.removeprefix("-")
    if not name:
        has_loss, right = ~np.isnan(seen.losses), seen.accuracies
        classifies = right is not None and not np.isnan(right[has_loss]).any()
        name = "accuracy" if classifies else "loss"
    if name == "accuracy" and seen.accuracies is not None:
        return "error", 1.0 - seen.accuracies
    if name in seen.metrics:
        return by, seen.metrics[name] * (1.0 if by.startswith("-") else -1.0)
    return "loss", seen.losses


def share_undecided(gates: Floats) -> float:
    """Returns the share of gates that have not settled, given their probabilities.

    >>> share_undecided(np.array([0.0, 0.3, 0.6, 1.0]))
    0.5
    """
    low, high = UNDECIDED
    return float(((gates > low) & (gates < high)).mean())


def _unsettled(gates: Floats | None) -> str:
    """Returns that a comparison does not count for learnt gates, where most have not settled."""
    if gates is None or not gates.size or share_undecided(gates) <= 0.5:
        return ""
    return (
        f"Learnt gates have not settled ({percent(share_undecided(gates))} are undecided), so "
        f"the comparison does not count for them: {SETTLE}. "
    )


def gap(costs: Floats, others: Floats) -> Gap:
    """Returns how far costs lie above others with the same seeds, as a share of the others."""
    differences = costs - others
    scale = abs(float(others.mean())) or 1.0
    mean, n = float(differences.mean()) / scale, len(differences)
    spread = float(differences.std(ddof=1)) / scale / n**0.5
    half = t_quantile((1 + CONFIDENCE) / 2, n - 1) * spread
    return Gap(mean, mean - half, mean + half)


@cache
def t_quantile(p: float, n_free: int) -> float:
    """Returns a quantile of Student's t distribution; SciPy is not for training to need.

    With ``t = sqrt(n_free) * tan(angle)``, the density of the angle is a power of its cosine.

    >>> round(t_quantile(0.95, 2), 3)
    2.92
    """
    angles = np.linspace(-np.pi / 2, np.pi / 2, 200_001)
    density = np.cos(angles) ** (n_free - 1)
    shares = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return float(n_free**0.5 * np.tan(np.interp(p, shares / shares[-1], angles)))


def _relative(costs: Mapping[str, Floats]) -> dict[str, Floats]:
    """Returns costs as shares of each task's mean, for tasks and seeds of which all is known.

    A task without a number is NaN in all runs, and stays NaN.
    """
    stacked = np.stack(list(costs.values()))  # [W, S, T]
    has_number = ~np.isnan(stacked).all(axis=(0, 1))
    ends = np.isfinite(stacked[:, :, has_number]).all(axis=(0, 2)) & has_number.any()
    kept = stacked[:, ends]
    if not kept.size:
        return dict(zip(costs, kept, strict=True))
    scale = np.abs(kept).mean(axis=(0, 1))
    scale[scale == 0] = 1.0
    return dict(zip(costs, kept / scale, strict=True))


def _reason(means: Mapping[str, Floats], beside: str, what: str) -> str:
    gaps = [f"{way} {gap(of, means[beside])}" for way, of in means.items() if way != beside]
    n = len(means[beside])
    return (
        f"Mean {what} beside {beside}: {', '.join(gaps)}; 90 % intervals of the difference over "
        f"{n} seeds."
    )


def _exceptions(known: Mapping[str, Floats], chosen: str) -> dict[int, tuple[str, Gap]]:
    """Returns which tasks do better another way than the chosen one, beyond chance and 5 %."""
    found: dict[int, tuple[str, Gap]] = {}
    for task in range(known[chosen].shape[1]):
        if np.isnan(known[chosen][:, task]).any():
            continue
        gaps = {w: gap(of[:, task], known[chosen][:, task]) for w, of in known.items()}
        best = min(gaps, key=lambda way: gaps[way].mean)
        if gaps[best].high < 0 and gaps[best].mean < -MARGIN:
            found[task] = (best, gaps[best])
    return found


def percent(share: float) -> str:
    """Returns a share, 0 to 1, as it is written."""
    return f"{100 * share:.0f} %"


def listed(names: Sequence[str]) -> str:
    """Returns names in a row, of which many are counted.

    >>> listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    shown = ", ".join(names[:MOST_LISTED])
    return f"{shown} and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else shown
