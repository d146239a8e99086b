"""What the recommended allocation reaches on tests, and whether that is what it should."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

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
from ..report import Column, OwnSection, Place, advantage_text, make_table
from ._causes_report import Runs, finished_runs
from ._remedy import CANDIDATES, CONTESTS, GUMBEL, RECOMMENDED, REMEDY_PREFIX, SHARED, Contest

PAGE = frozenset({Place.PAGE})
GAINS = "Gains over the better fixed pattern, seed by seed, with 90 % intervals"
N_BETTER = 3  # suites on which it should be better than every fixed pattern
OURS = {method.name: method.label for method in (RECOMMENDED, *CANDIDATES)}
JUDGED = {**OURS, GUMBEL: "Gumbel-Matrix"}  # by what they gain over the fixed patterns
_LABELS = {1: "better than", 0: "not told from", -1: "worse than"}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a way of sharing does on a suite."""

    suite: str
    over_better: Gain  # over the better fixed pattern
    over_each: tuple[Advantage, ...]  # over every fixed pattern

    @property
    def is_worse(self) -> bool:
        return self.over_better.over_baseline.sign < 0

    @property
    def is_better(self) -> bool:
        return all(each.sign > 0 for each in self.over_each)


@dataclass(frozen=True, kw_only=True)
class ContestResult:
    """What a contest showed."""

    contest: Contest
    runs: Runs
    standings: dict[str, Standing]  # of each way that is held against the fixed patterns
    chosen: Advantage  # of each seed the run that is best on validation, over the better pattern
    chosen_over_chosen: Advantage  # over such a choice among the fixed patterns


def contest_result(contest: Contest, records: Sequence[RunRecord]) -> ContestResult | None:
    """Returns what a contest showed, if the recommended allocation and all fixed patterns ran."""
    runs = finished_runs(REMEDY_PREFIX + contest.name, records)
    found = {name: own for name in JUDGED if (own := _standing(contest, runs, name)) is not None}
    if RECOMMENDED.name not in found:
        return None
    chosen = _chosen(runs, [RECOMMENDED.name, *contest.by_hand])
    better = found[RECOMMENDED.name].over_better.baseline
    return ContestResult(
        contest=contest,
        runs=runs,
        standings=found,
        chosen=advantage(chosen, runs[better]),
        chosen_over_chosen=advantage(chosen, _chosen(runs, contest.by_hand)),
    )


def _standing(contest: Contest, runs: Runs, method: str) -> Standing | None:
    found = gain(runs, method, contest.by_hand) if method in runs else None
    if found is None:
        return None
    over_each = tuple(advantage(runs[method], runs[each]) for each in contest.by_hand)
    return Standing(suite=contest.name, over_better=found, over_each=over_each)


def _chosen(runs: Runs, ways: Sequence[str]) -> list[RunRecord]:
    """Returns, of each seed that all of these ways have, the run that does best on validation."""
    by_seed = [{run.header.seed: run for run in runs[way]} for way in ways]
    seeds = sorted(set.intersection(*map(set, by_seed)))
    return [best_on_validation([[own[seed]] for own in by_seed])[0] for seed in seeds]


def contest_section(contest: Contest, records: Sequence[RunRecord]) -> OwnSection:
    """Returns what is shown of a suite: its methods, and what the recommended has over each."""
    found = contest_result(contest, records)
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
        sentences=tuple(_verdict(found, name) for name in OURS if name in found.standings),
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


def _verdict(found: ContestResult, method: str) -> str:
    labels = {method.name: method.label for method in found.contest.methods}
    own = found.standings[method].over_better
    _, _, unit = _units(found.runs[method])
    which = "the better fixed pattern" if len(found.contest.by_hand) > 1 else "the fixed pattern"
    return (
        f"{labels[method]} is {_LABELS[own.over_baseline.sign]} {which}, "
        f"{labels[own.baseline].lower()}: {advantage_text(own.over_baseline)} {unit}."
    )


def summary_text(records: Sequence[RunRecord]) -> str:
    """Returns whether the goal is met, and what a choice on validation is worth."""
    ran = _contest_results(records)
    return " ".join([_goal_text(ran), *_candidate_texts(ran), *_choice_text(ran)[:1]])


def _contest_results(records: Sequence[RunRecord]) -> list[ContestResult]:
    """Returns what each of the contests showed that ran."""
    return [own for each in CONTESTS if (own := contest_result(each, records)) is not None]


def remedy_overview(records: Sequence[RunRecord]) -> OwnSection:
    """Returns all suites at once, and whether the goal is met."""
    found = {contest.name: contest_result(contest, records) for contest in CONTESTS}

    def result(method: str, name: str) -> str:
        own = found[name]
        if own is None or method not in own.runs:
            return "not run"
        return _result(own.runs[method], _units(own.runs[method])[0])

    def alone(name: str) -> str:
        contest = next(each for each in CONTESTS if each.name == name)
        return result(contest.alone, name) if contest.alone else "does not fit"

    def over(of: Callable[[ContestResult], Advantage | None]) -> Callable[[str], str]:
        def cell(name: str) -> str:
            own = found[name]
            gained = None if own is None else of(own)
            return "not run" if gained is None else advantage_text(gained)

        return cell

    suite = Column[str]("Suite", lambda name: name, kind="name")
    labels = {**JUDGED, SHARED: "Shared bottom (mean)"}
    results = [Column(labels[way], partial(result, way)) for way in labels]
    gains = [Column(JUDGED[way], over(partial(_over_better, way))) for way in JUDGED]
    choices: list[Column[str]] = [
        Column("Recommended or fixed, chosen on validation", over(lambda own: own.chosen)),
        Column("The same, over the fixed so chosen", over(lambda own: own.chosen_over_chosen)),
    ]
    ran = [own for own in found.values() if own is not None]
    said = [_goal_text(ran), *_candidate_texts(ran), *_choice_text(ran)]
    tables = (
        make_table(
            [suite, *results, Column("No sharing", alone)],
            found,
            "Test results, in % or as the loss (two_pairs)",
        ),
        make_table([suite, *gains, *choices], found, GAINS),
    )
    return OwnSection(sentences=tuple(said), tables=tables)


def _over_better(method: str, own: ContestResult) -> Advantage | None:
    found = own.standings.get(method)
    return None if found is None else found.over_better.over_baseline


def _choice_text(ran: Sequence[ContestResult]) -> list[str]:
    """Returns what it is worth to train all ways and to take the one that validation prefers."""
    if not ran:
        return []

    def named(of: Callable[[ContestResult], Advantage], sign: int) -> str:
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


def _goal_text(ran: Sequence[ContestResult]) -> str:
    """Returns whether the goal is met: nowhere worse, and better on at least three suites."""
    if not ran:
        return "The recommended allocation (`allotment run remedy --suite NAME`) is not run yet."
    found = [own.standings[RECOMMENDED.name] for own in ran]
    worse, better = _losses(found), _wins(found)
    missing = _missing(found)
    left = f" Not run yet: {_list(missing)}." if missing else ""
    return (
        "The goal for `al.recommended`, the allocation to begin with, is never to be worse than "
        "the better of a shared bottom and no sharing, and to beat both on at least "
        f"{N_BETTER} of {len(CONTESTS)} suites. It {_is_met(worse, better, missing)}: of the "
        f"{len(ran)} that ran, with fresh seeds, it beats both on {_list(better)} and loses to the "
        f"better one on {_list(worse)} (90 % intervals, seed by seed).{left}"
    )


def _candidate_texts(ran: Sequence[ContestResult]) -> list[str]:
    """Returns how the candidates do where they ran, a sentence each."""
    said = []
    for method in CANDIDATES:
        found = [own.standings[method.name] for own in ran if method.name in own.standings]
        if not found:
            continue
        missing, wins, losses = _missing(found), _wins(found), _losses(found)
        equal = [own.suite for own in found if own.suite not in (*wins, *losses)]
        left = f" (not run yet: {_list(missing)})" if missing else ""
        said.append(
            f"{method.label} (`{method.allocation.name}`), a candidate for its place, is better "
            f"than every fixed pattern on {_list(wins)}, worse than the better one on "
            f"{_list(losses)}, and not told from it on {_list(equal)}{left}."
        )
    return said


def _wins(found: Sequence[Standing]) -> list[str]:
    return [own.suite for own in found if own.is_better]


def _losses(found: Sequence[Standing]) -> list[str]:
    return [own.suite for own in found if own.is_worse]


def _missing(found: Sequence[Standing]) -> list[str]:
    ran = [own.suite for own in found]
    return [each.name for each in CONTESTS if each.name not in ran]


def _is_met(worse: Sequence[str], better: Sequence[str], missing: Sequence[str]) -> str:
    if worse or len(better) + len(missing) < N_BETTER:
        return "is not met"
    return "is not met so far" if missing or len(better) < N_BETTER else "is met"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
