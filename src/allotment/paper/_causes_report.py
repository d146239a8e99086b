"""What the causes show: how much each change of gates' training helps, on validation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..analysis import (
    Advantage,
    Estimate,
    advantage,
    estimate,
    gain,
    group_runs,
    summarise,
    validation_measure,
)
from ..records import RunRecord
from ..report import Column, OwnSection, Place, advantage_text, make_table
from ._causes import CAUSES_PREFIX, CAUSES_SUITES, Suite
from ._changes import CAPACITY, CHANGES, JOINT, NARROW, PLAIN
from ._methods import SHARED_BOTTOM_MEAN

_NARROW_LABEL = "A shared bottom has as many components as gates leave open, beside all of them"
_VERDICTS = {1: "better", 0: "not told apart", -1: "worse"}

Runs = Mapping[str, Sequence[RunRecord]]  # the finished ones of a suite, by method


@dataclass(frozen=True, kw_only=True)
class Row:
    """A method of a suite: what it reaches, and how much better it is than others."""

    cause: str
    label: str
    result: Estimate
    effect: Advantage | None  # beside what it is one change of
    over_hand: Advantage | None  # beside the better of the two fixed patterns
    share_open: Estimate


def rows(suite: Suite, records: Sequence[RunRecord]) -> dict[str, Row]:
    """Returns the methods of a suite that ran, by name, with their numbers on validation."""
    runs = finished_runs(CAUSES_PREFIX + suite.name, records)
    causes = {change.name: change for change in CHANGES} | {PLAIN.name: PLAIN}
    found = {}
    for method in suite.methods:
        if method.name not in runs:
            continue
        change = causes.get(method.name)
        cause = change.cause if change else CAPACITY if method.name == NARROW else "Fixed pattern"
        found[method.name] = Row(
            cause=cause or "Plain gates",
            label=method.label,
            result=estimate(map(validation_measure, runs[method.name])),
            effect=_effect(runs, method.name, change.beside if change else SHARED_BOTTOM_MEAN.name),
            over_hand=_over_hand(runs, method.name, suite) if change else None,
            share_open=summarise(runs[method.name]).share_active,
        )
    return found


def finished_runs(experiment: str, records: Sequence[RunRecord]) -> Runs:
    """Returns the runs of an experiment that reached their end, by method."""
    return {
        method: finished
        for (name, _, method), runs in group_runs(records).items()
        if name == experiment and (finished := [run for run in runs if run.finished])
    }


def _effect(runs: Runs, name: str, beside: str) -> Advantage | None:
    is_one_change = name == NARROW or beside == PLAIN.name
    if not is_one_change or name == beside or beside not in runs:
        return None
    return advantage(runs[name], runs[beside], validation_measure)


def _over_hand(runs: Runs, name: str, suite: Suite) -> Advantage | None:
    """Returns what a method has over the better fixed pattern, which takes steps as it does."""
    trained = {method.name for method in suite.methods}
    named = (each + JOINT * name.endswith(JOINT) for each in suite.by_hand)
    by_hand = [each for each in named if each in trained]
    found = gain(runs, name, by_hand, of=validation_measure)
    return None if found is None else found.over_baseline


def causes_section(suite: Suite, records: Sequence[RunRecord]) -> OwnSection:
    """Returns what is shown of a suite: every method, with what its change does."""
    found = rows(suite, records)
    if not found:
        return OwnSection(sentences=("Not run yet.",))
    is_loss = records[0].header.measure == "test_loss"
    factor, what = (1.0, "loss") if is_loss else (100.0, "result, %")
    unit = "% of the loss" if is_loss else "points"
    columns: list[Column[Row]] = [
        Column("Cause", lambda row: row.cause, kind="text"),
        Column("Change", lambda row: row.label, kind="name"),
        Column(f"Validation {what}", lambda row: row.result.scaled(factor).value_text),
        Column(f"What the change brings, {unit}", lambda row: advantage_text(row.effect)),
        Column(f"Over the better fixed, {unit}", lambda row: advantage_text(row.over_hand)),
        Column("Gates open", lambda row: f"{100 * row.share_open.mean:.0f} %"),
        Column("Seeds", lambda row: str(row.result.n)),
    ]
    shown = make_table(columns, found.values())
    brief = [columns[1], columns[3], columns[4]]
    return OwnSection(
        sentences=(_said_of(found),),
        tables=(shown,),
        brief=make_table(brief, found.values(), place=Place.TERMINAL),
    )


def _said_of(found: Mapping[str, Row]) -> str:
    """Returns which changes help plain gates, and which hurt."""
    parts = []
    for sign, verb in ((1, "Better than plain gates"), (-1, "worse")):
        names = [
            row.label
            for name, row in found.items()
            if name != NARROW and row.effect and row.effect.sign == sign
        ]
        parts.append(f"{verb}: {'; '.join(names) or 'none'}")
    return f"{'. '.join(parts).replace('. worse', '. Worse')}. The others are not told apart."


def causes_overview(records: Sequence[RunRecord]) -> OwnSection:
    """Returns all suites at once: what each change brings."""
    by_suite = {suite.name: rows(suite, records) for suite in CAUSES_SUITES}
    present = {name: found for name, found in by_suite.items() if found}
    if not present:
        return OwnSection(sentences=("Not run yet.",))
    changes = [
        *((change.name, change.cause, change.label) for change in CHANGES),
        (NARROW, CAPACITY, _NARROW_LABEL),
    ]
    order = list(dict.fromkeys(cause for _, cause, _ in changes))
    changes.sort(key=lambda change: order.index(change[1]))
    columns = [
        Column[tuple[str, str, str]]("Cause", lambda change: change[1], kind="text"),
        Column[tuple[str, str, str]]("Change", lambda change: change[2], kind="name"),
        *(_effects_on(name, found) for name, found in present.items()),
    ]
    said = [_said_of_cause(cause, present) for cause in order]
    return OwnSection(sentences=tuple(said), tables=(make_table(columns, changes),))


def _effects_on(name: str, found: Mapping[str, Row]) -> Column[tuple[str, str, str]]:
    def cell(change: tuple[str, str, str]) -> str:
        row = found.get(change[0])
        return advantage_text(None if row is None else row.effect)

    return Column(name, cell)


def _said_of_cause(cause: str, present: Mapping[str, Mapping[str, Row]]) -> str:
    """Returns on how many suites each change of a cause is better, or worse."""
    said = []
    for change in (each for each in CHANGES if each.cause == cause):
        effects = {
            suite: row.effect
            for suite, found in present.items()
            if (row := found.get(change.name)) and row.effect
        }
        verdicts = [f"{_VERDICTS[each.sign]} on {suite}" for suite, each in effects.items()]
        said.append(f"{change.label}: {', '.join(verdicts) or 'not run'}")
    return f"{cause}. {'. '.join(said)}."
