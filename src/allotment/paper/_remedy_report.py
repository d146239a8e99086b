"""What the recommended allocation reaches on tests, and whether that is what it should."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..analysis import Advantage, Gain, advantage, estimate, gain, group_runs, measure
from ..records import RunRecord
from ..report import Column, OwnSection, Place, advantage_text, make_table
from ._remedy import CONTESTS, GUMBEL, RECOMMENDED, REMEDY_PREFIX, SHARED, Contest

NOTHING = "–"
PAGE = frozenset({Place.PAGE})
N_BETTER = 3  # suites on which it should be better than all ways by hand
_LABELS = {1: "better than", 0: "not told from", -1: "worse than"}

Runs = Mapping[str, Sequence[RunRecord]]  # the finished ones of a suite, by method


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How the recommended allocation does on a suite."""

    contest: Contest
    runs: Runs
    recommended: Gain  # over the better way by hand
    gumbel: Gain | None
    over_each: tuple[Advantage, ...]  # over every way by hand

    @property
    def is_worse(self) -> bool:
        return self.recommended.over_baseline.sign < 0

    @property
    def is_better(self) -> bool:
        return all(each.sign > 0 for each in self.over_each)


def standing(contest: Contest, records: Sequence[RunRecord]) -> Standing | None:
    """Returns how it does on a suite, if all ways by hand ran there."""
    name = REMEDY_PREFIX + contest.name
    runs: Runs = {
        method: finished
        for (experiment, _, method), own in group_runs(records).items()
        if experiment == name and (finished := [run for run in own if run.finished])
    }
    if RECOMMENDED.name not in runs:
        return None
    found = gain(runs, RECOMMENDED.name, contest.by_hand)
    if found is None:
        return None
    return Standing(
        contest=contest,
        runs=runs,
        recommended=found,
        gumbel=gain(runs, GUMBEL, contest.by_hand) if GUMBEL in runs else None,
        over_each=tuple(advantage(runs[RECOMMENDED.name], runs[each]) for each in contest.by_hand),
    )


def contest_section(contest: Contest, records: Sequence[RunRecord]) -> OwnSection:
    """Returns what is shown of a suite: its methods, and what the recommended has over each."""
    found = standing(contest, records)
    if found is None:
        command = f"allotment run remedy --suite {contest.name}"
        return OwnSection(sentences=(f"Not run yet; the command is `{command}`.",))
    ours = found.runs[RECOMMENDED.name]
    factor, _, unit = _units(ours)

    def over(method: str) -> str:
        if method == RECOMMENDED.name:
            return NOTHING
        return advantage_text(advantage(ours, found.runs[method]))

    labels = {method.name: method.label for method in contest.methods}
    columns: list[Column[str]] = [
        Column("Method", lambda name: labels[name], kind="name"),
        Column("Test result", lambda name: _result(found.runs[name], factor)),
        Column(f"The recommended over it, {unit}", over),
        Column("Learning rate", lambda name: _rate(found.runs[name]), places=PAGE),
        Column("Parameters", lambda name: _size(found.runs[name]), places=PAGE),
    ]
    present = [name for name in labels if name in found.runs]
    return OwnSection(
        sentences=(_verdict(found),),
        tables=(make_table(columns, present),),
        brief=make_table(columns, present, place=Place.TERMINAL),
    )


def _units(runs: Sequence[RunRecord]) -> tuple[float, str, str]:
    """Returns what results are multiplied by, what they are, and the unit of gains."""
    if runs[0].header.measure == "test_loss":
        return 1.0, "loss", "% of the loss"
    return 100.0, "%", "points"


def _result(runs: Sequence[RunRecord], factor: float) -> str:
    return str(estimate(map(measure, runs)).scaled(factor))


def _rate(runs: Sequence[RunRecord]) -> str:
    return f"{runs[0].header.settings['training']['optimization']['learning_rate']:.2g}"


def _size(runs: Sequence[RunRecord]) -> str:
    return f"{runs[0].header.n_parameters:,}"


def _verdict(found: Standing) -> str:
    labels = {method.name: method.label for method in found.contest.methods}
    own = found.recommended
    _, _, unit = _units(found.runs[RECOMMENDED.name])
    which = "the better way by hand" if len(found.contest.by_hand) > 1 else "the one way by hand"
    return (
        f"{RECOMMENDED.label} is {_LABELS[own.over_baseline.sign]} {which}, "
        f"{labels[own.baseline].lower()}: {advantage_text(own.over_baseline)} {unit}."
    )


def remedy_overview(records: Sequence[RunRecord]) -> OwnSection:
    """Returns all suites at once, and whether the goal is met."""
    found = {contest.name: standing(contest, records) for contest in CONTESTS}

    def result(method: str, name: str) -> str:
        own = found[name]
        if own is None or method not in own.runs:
            return NOTHING if own else "not run"
        return _result(own.runs[method], _units(own.runs[method])[0])

    def alone(name: str) -> str:
        contest = next(each for each in CONTESTS if each.name == name)
        return result(contest.alone, name) if contest.alone else "does not fit"

    def over(name: str) -> str:
        own = found[name]
        return NOTHING if own is None else advantage_text(own.recommended.over_baseline)

    def gumbel(name: str) -> str:
        own = found[name]
        if own is None or own.gumbel is None:
            return NOTHING
        return advantage_text(own.gumbel.over_baseline)

    columns: list[Column[str]] = [
        Column("Suite", lambda name: name, kind="name"),
        Column(RECOMMENDED.label, lambda name: result(RECOMMENDED.name, name)),
        Column("Gumbel-Matrix", lambda name: result(GUMBEL, name)),
        Column("Shared bottom (mean)", lambda name: result(SHARED, name)),
        Column("No sharing", alone),
        Column("Recommended over the better by hand", over),
        Column("Gumbel-Matrix over it", gumbel),
    ]
    return OwnSection(sentences=(goal_text(records),), tables=(make_table(columns, found),))


def goal_text(records: Sequence[RunRecord]) -> str:
    """Returns whether the goal is met: nowhere worse, and better on at least three suites."""
    every = {contest.name: standing(contest, records) for contest in CONTESTS}
    ran = {name: own for name, own in every.items() if own is not None}
    if not ran:
        return "The recommended allocation (`allotment run remedy --suite NAME`) is not run yet."
    worse = [name for name, own in ran.items() if own.is_worse]
    better = [name for name, own in ran.items() if own.is_better]
    missing = [name for name in every if name not in ran]
    is_failed = bool(worse) or len(better) + len(missing) < N_BETTER
    is_met = not worse and not missing and len(better) >= N_BETTER
    verdict = "is met" if is_met else "is not met" if is_failed else "is not met so far"
    left = f" Not run yet: {_list(missing)}." if missing else ""
    return (
        f"The goal for the recommended allocation {verdict}: nowhere worse than the better of a "
        f"shared bottom and no sharing, and better than both on at least {N_BETTER} of "
        f"{len(every)} suites. On {len(ran)} suites run with seeds that no choice saw, it is "
        f"better than both on {_list(better)} and worse than the better one on {_list(worse)} "
        f"(90 % intervals, seed by seed).{left}"
    )


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
