"""How the cost of a step grows with sizes, from the records of the benchmarks."""

import json
from pathlib import Path
from typing import Any

from ..records import RecordError, environment_from

from ._markdown import markdown_table
from ._tables import Table


def scaling_text(path: Path) -> str:
    """Returns the record in a file as Markdown: a row for what was varied, a column for how far."""
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = environment_from(value["environment"])
        sizes: dict[str, list[tuple[int, float]]] = {}
        for row in value["rows"]:
            sizes.setdefault(row["varied"], []).append((row["number"], row["milliseconds"]))
        processor = value["processor"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecordError(
            f"A record of scaling should be complete. Found `{path}`: {error}."
        ) from error
    rows = tuple(
        (varied, ", ".join(f"{ms:.3g} ({number:,})" for number, ms in points))
        for varied, points in sizes.items()
    )
    lines = [
        "**How a step grows**: `python benchmarks/scaling.py`, the 4-MNISTs network with one thing "
        "varied and the others at 4 tasks, 4 components in a layer and 1 run; the fastest of three "
        "blocks of ten rounds, measured once",
        f"Machine: {processor}; device: {found.device}; commit: {found.short_commit}",
    ]
    table = Table(head=("Varied", "ms of a step of all runs (at this number)"), rows=rows)
    return "  \n".join(lines) + "\n\n" + markdown_table(table)
