"""Where the numbers of a table come from."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..analysis import group_runs
from ..records import RunRecord
from ._section import Section
from ._table import runs_text

_MOST = 6  # different commands that are written out


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The sweeps behind a table: how many runs each command, device and commit gave."""

    runs: str
    time: str  # wall-clock time of all programs
    commands: tuple[tuple[str, str], ...]  # each with how many runs it gave, where several did
    files: tuple[str, ...]  # that define the experiment, where it is somebody's own
    devices: tuple[str, ...]
    commits: tuple[str, ...]
    versions: tuple[str, ...]
    note: str  # empty unless something stands against comparing the runs


def provenance(part: Section) -> Provenance:
    """Returns where the runs of a section come from."""
    records = part.records
    return Provenance(
        runs=f"{len(records):,} with {_methods_text(part)}, "
        + rounds_text(records, part.spec.rounds),
        time=_time(records),
        commands=_counts(record.header.command for record in records),
        files=_counted(r.environment.source for r in records if r.environment.source),
        devices=_counted(_in_turn(e.device for e in r.environment.pieces) for r in records),
        commits=_counted(_in_turn(e.short_commit for e in r.environment.pieces) for r in records),
        versions=_counted(_versions(record) for record in records),
        note=_note(records),
    )


def _methods_text(part: Section) -> str:
    """Returns how many methods have runs, of how many; under several conditions, each with one."""
    n_ran, n = len(part.ran), len(part.rows)
    what = "pairs of method and condition" if len(part.conditions) > 1 else "methods"
    if n == 1:
        return "one method"
    return f"all {n} {what}" if n_ran == n else f"{n_ran} of the {n} {what}"


def provenance_text(part: Section) -> str:
    """Returns the lines above a table: what ran, where, and from which commit."""
    found = provenance(part)
    if not part.records:
        return ""
    commands = [f"`{text}` {note}".strip() if text else note for text, note in found.commands]
    lines = [
        f"Command: {'; '.join(commands)}",
        f"File: {'; '.join(found.files)}" if found.files else "",
        f"Device: {'; '.join(found.devices)}",
        f"Runs: {found.runs}, trained for {found.time} in all",
        f"Commit: {'; '.join(found.commits)} ({'; '.join(found.versions)})",
        found.note,
    ]
    return "  \n".join(line for line in lines if line)


def are_as_declared(records: Sequence[RunRecord], declared: int | None) -> bool:
    """Tells whether runs had as many rounds as their experiment has."""
    return declared is None or all(record.outcome.rounds == declared for record in records)


def lengths(records: Sequence[RunRecord]) -> str:
    """Returns the numbers of rounds that runs had."""
    return " or ".join(f"{n:,}" for n in sorted({record.outcome.rounds for record in records}))


def rounds_text(records: Sequence[RunRecord], declared: int | None) -> str:
    """Returns how long runs were, and how long they should have been where that differs."""
    said = f"each of {lengths(records)} rounds"
    if are_as_declared(records, declared):
        return said
    return f"{said}, where the experiment has {declared:,}"


def _time(records: Sequence[RunRecord]) -> str:
    """Returns the time of all programs; runs that trained together tell the same time."""
    seconds = sum({record.outcome.seconds for record in records})
    return f"{seconds:.0f} s" if seconds < 300 else f"{seconds / 60:.0f} min"


def _versions(record: RunRecord) -> str:
    found = record.environment
    own = "" if found.allotment == "unknown" else f"allotment {found.allotment}, "
    return f"{own}torch {found.torch}, Python {found.python}"  # the commit says more than a version


def _in_turn(texts: Iterable[str]) -> str:
    """Returns the different texts of the pieces of a run, in the order in which it came by them."""
    return ", then ".join(dict.fromkeys(texts))


def _counted(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the different texts, each with how many runs gave it, where there are several."""
    return tuple(f"{text} {note}".strip() for text, note in _counts(texts))


def _counts(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Returns the different texts, the most frequent first, and what to say of each."""
    counts = Counter(text or "unknown" for text in texts).most_common()
    if len(counts) < 2:
        return tuple((text, "") for text, _ in counts)
    lines = [(text, f"({runs_text(n)})") for text, n in counts[:_MOST]]
    left = counts[_MOST:]
    return (*lines, *([("", f"and {len(left)} more")] if left else []))


def _note(records: Sequence[RunRecord]) -> str:
    for runs in group_runs(records).values():
        if any(run.header.settings != runs[0].header.settings for run in runs):
            return "Runs of one row differ in their settings."
    return ""
