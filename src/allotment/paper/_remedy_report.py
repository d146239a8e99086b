"""What the recommended allocation reaches on tests, and whether that is what it should."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..analysis import (
    Advantage,
    Gain,
    advantage,
    best_on_validation,
    estimate,
    gain,
    measure,
)
from ..records import RunRecord
from ..report import NOTHING, Column, OwnSection, Place, advantage_text, make_table
from ._causes_report import Runs, finished_runs
from ._remedy import CONTESTS, GUMBEL, RECOMMENDED, REMEDY_PREFIX, SHARED, Contest

PAGE = frozenset({Place.PAGE})
N_BETTER = 3  # suites on which it should be better than every fixed pattern
_LABELS = {1: "better than", 0: "not told from", -1: "worse than"}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How the recommended allocation does on a suite."""

    contest: Contest
    runs: Runs
    recommended: Gain  # over the better fixed pattern
    gumbel: Gain | None
    over_each: tuple[Advantage, ...]  # over every fixed pattern
    chosen: Advantage  # of each seed the run that is best on validation, over the better pattern
    chosen_over_chosen: Advantage  # over such a choice among the fixed patterns

    @property
    def is_worse(self) -> bool:
        return self.recommended.over_baseline.sign < 0

    @property
    def is_better(self) -> bool:
        return all(each.sign > 0 for each in self.over_each)


def standing(contest: Contest, records: Sequence[RunRecord]) -> Standing | None:
    """Returns how it does on a suite, if all fixed patterns ran there."""
    runs = finished_runs(REMEDY_PREFIX + contest.name, records)
    if RECOMMENDED.name not in runs:
        return None
    found = gain(runs, RECOMMENDED.name, contest.by_hand)
    if found is None:
        return None
    chosen = _chosen(runs, [RECOMMENDED.name, *contest.by_hand])
    return Standing(
        contest=contest,
        runs=runs,
        chosen=advantage(chosen, runs[found.baseline]),
        chosen_over_chosen=advantage(chosen, _chosen(runs, contest.by_hand)),
        recommended=found,
        gumbel=gain(runs, GUMBEL, contest.by_hand) if GUMBEL in runs else None,
        over_each=tuple(advantage(runs[RECOMMENDED.name], runs[each]) for each in contest.by_hand),
    )


def _chosen(runs: Runs, ways: Sequence[str]) -> list[RunRecord]:
    """Returns, of each seed that all of these ways have, the run that does best on validation."""
    by_seed = [{run.header.seed: run for run in runs[way]} for way in ways]
    seeds = sorted(set.intersection(*map(set, by_seed)))
    return [best_on_validation([[own[seed]] for own in by_seed])[0] for seed in seeds]


def contest_section(contest: Contest, records: Sequence[RunRecord]) -> OwnSection:
    """Returns what is shown of a suite: its methods, and what the recommended has over each."""
    found = standing(contest, records)
    if found is None:
        command = f"allotment run remedy --suite {contest.name}"
        return OwnSection(sentences=(f"Not run yet; the command is `{command}`.",))
    ours = found.runs[RECOMMENDED.name]
    factor, _, unit = _units(ours)

    def over(method: str) -> str:
        is_itself = method == RECOMMENDED.name
        return advantage_text(None if is_itself else advantage(ours, found.runs[method]))

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
    which = "the better fixed pattern" if len(found.contest.by_hand) > 1 else "the fixed pattern"
    return (
        f"{RECOMMENDED.label} is {_LABELS[own.over_baseline.sign]} {which}, "
        f"{labels[own.baseline].lower()}: {advantage_text(own.over_baseline)} {unit}."
    )


def summary_text(records: Sequence[RunRecord]) -> str:
    """Returns whether the goal is met, and what a choice on validation is worth."""
    ran = _standings(records)
    return " ".join([_goal_text(ran), *_choice_text(ran)[:1]])


def _standings(records: Sequence[RunRecord]) -> list[Standing]:
    """Returns how it does on each of the suites that ran."""
    return [own for each in CONTESTS if (own := standing(each, records)) is not None]


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

    def over(of: Callable[[Standing], Advantage | None]) -> Callable[[str], str]:
        def cell(name: str) -> str:
            own = found[name]
            return advantage_text(None if own is None else of(own))

        return cell

    def gumbel(own: Standing) -> Advantage | None:
        return None if own.gumbel is None else own.gumbel.over_baseline

    columns: list[Column[str]] = [
        Column("Suite", lambda name: name, kind="name"),
        Column(RECOMMENDED.label, lambda name: result(RECOMMENDED.name, name)),
        Column("Gumbel-Matrix", lambda name: result(GUMBEL, name)),
        Column("Shared bottom (mean)", lambda name: result(SHARED, name)),
        Column("No sharing", alone),
        Column(
            "Recommended over the better fixed", over(lambda own: own.recommended.over_baseline)
        ),
        Column("Gumbel-Matrix over it", over(gumbel)),
        Column("Chosen on validation over it", over(lambda own: own.chosen)),
        Column("… over the fixed so chosen", over(lambda own: own.chosen_over_chosen)),
    ]
    ran = [own for own in found.values() if own is not None]
    said = [_goal_text(ran), *_choice_text(ran)]
    return OwnSection(sentences=tuple(said), tables=(make_table(columns, found),))


def _choice_text(ran: Sequence[Standing]) -> list[str]:
    """Returns what it is worth to train all ways and to take the one that validation prefers."""
    if not ran:
        return []

    def named(of: Callable[[Standing], Advantage], sign: int) -> str:
        return _list([own.contest.name for own in ran if of(own).sign == sign])

    return [
        "The alternative is to train it and both fixed patterns and to keep the best on "
        "validation, which is what `result.baselines.network()` does: seed by seed, that beats the "
        f"better fixed pattern on {named(lambda own: own.chosen, 1)} and loses to it on "
        f"{named(lambda own: own.chosen, -1)}.",
        "Part of that comes from having several runs to choose from: against the same choice "
        "between the fixed patterns alone, it is better on "
        f"{named(lambda own: own.chosen_over_chosen, 1)} and worse on "
        f"{named(lambda own: own.chosen_over_chosen, -1)}.",
    ]


def _goal_text(ran: Sequence[Standing]) -> str:
    """Returns whether the goal is met: nowhere worse, and better on at least three suites."""
    if not ran:
        return "The recommended allocation (`allotment run remedy --suite NAME`) is not run yet."
    worse = [own.contest.name for own in ran if own.is_worse]
    better = [own.contest.name for own in ran if own.is_better]
    present = [own.contest for own in ran]
    missing = [each.name for each in CONTESTS if each not in present]
    left = f" Not run yet: {_list(missing)}." if missing else ""
    return (
        "The goal for `al.recommended`, the allocation to begin with, is never to be worse than "
        "the better of a shared bottom and no sharing, and to beat both on at least "
        f"{N_BETTER} of {len(CONTESTS)} suites. It {_is_met(worse, better, missing)}: of the "
        f"{len(ran)} that ran, with fresh seeds, it beats both on {_list(better)} and loses to the "
        f"better one on {_list(worse)} (90 % intervals, seed by seed).{left}"
    )


def _is_met(worse: Sequence[str], better: Sequence[str], missing: Sequence[str]) -> str:
    if worse or len(better) + len(missing) < N_BETTER:
        return "is not met"
    return "is not met so far" if missing or len(better) < N_BETTER else "is met"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
