"""Where the time of a training step goes, as a table."""

from ..records import ProfilePart, ProfileRecord
from ._table import Column, make_table, markdown_table


def profile_lines(record: ProfileRecord) -> list[str]:
    """Returns where the time of a step goes, as lines of Markdown.

    >>> from allotment.records import ProfilePart, ProfileRecord, describe_environment
    >>> from allotment.report import profile_lines
    >>> record = ProfileRecord(
    ...     command="python benchmarks/profiled.py",
    ...     label="four runs",
    ...     precision="bfloat16",
    ...     environment=describe_environment("cpu"),
    ...     milliseconds=2.5,
    ...     profiled=2.9,
    ...     busy=2.6,
    ...     parts=(ProfilePart(kind="convolutions", milliseconds=2.6, n_calls=96),),
    ... )
    >>> print(profile_lines(record)[5])
    | convolutions | 2.6 | 100 % | 96 |

    Args:
        record: What the profiler saw.
    """
    total = sum(part.milliseconds for part in record.parts)
    found = record.environment
    columns: list[Column[ProfilePart]] = [
        Column("Operations", lambda part: part.kind, kind="name"),
        Column("ms", lambda part: f"{part.milliseconds:.3g}"),
        Column("Share", lambda part: f"{100 * part.milliseconds / (total or 1):.0f} %"),
        Column("Calls", lambda part: f"{part.n_calls:,.0f}"),
    ]
    at_once = (
        f"added up they take {total:.3g} ms, since several run at once; "
        if total > 1.01 * record.busy
        else ""
    )
    return [
        f"**Where a step goes: {record.label}** ({record.precision}): `{record.command}`  ",
        f"Device: {found.device}; commit: {found.short_commit} (torch {found.torch})",
        "",
        *markdown_table(make_table(columns, record.parts)).splitlines(),
        "",
        f"Milliseconds of one run and task batch. Of {record.profiled:.3g} ms under the profiler "
        f"operations run in {record.busy:.3g}; {at_once}nothing runs in "
        f"{max(0.0, record.profiled - record.busy):.2g}. Without the profiler it is "
        f"{record.milliseconds:.3g} ms.",
    ]
