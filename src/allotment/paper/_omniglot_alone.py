"""Twenty alphabets without sharing: runs of one task each, trained well."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..allocation import SharedBottom
from ..experiments import Allocate, DataOptions, Method, ReportOptions, using
from ..modules import MultiTaskNetwork
from ..records import RunRecord
from ..tasks import Task
from ._omniglot import ALL, ELASTIC, OMNIGLOT, OMNIGLOT_TUNED, alphabets, omniglot
from .networks import omniglot_network

if TYPE_CHECKING:
    from ..analysis import Estimate
    from ..report import OwnSection

NAME = "omniglot_alone"
LABEL = "Single task"
PUBLISHED = OMNIGLOT.report.elsewhere["Single task (Meyerson and Miikkulainen, 2018)"]
# One name and one width for all alphabets, so that their runs train as one program. The largest
# alphabet has so many characters; what others leave of the outputs is never a label.
TASK, N_OUTPUTS = "characters", 48


@cache  # so that all runs have one copy of the images
def _tasks(folder: Path | None) -> dict[str, Task]:
    return {task.name: replace(task, name=TASK) for task in omniglot(folder)}


def _network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    return omniglot_network(allocate, dict.fromkeys(outputs, N_OUTPUTS))


def _ended(records: Sequence[RunRecord]) -> list[RunRecord]:
    return [run for run in records if run.header.experiment == NAME and run.finished]


def _error(run: RunRecord) -> float:
    """Returns the test error in percent."""
    from ..analysis import measure

    return 100 * (1 - measure(run))


def mean_errors(records: Sequence[RunRecord]) -> dict[int, float]:
    """Returns the mean test error over alphabets, in percent, by seed, where all alphabets ran."""
    errors: dict[int, dict[str, float]] = defaultdict(dict)
    for run in _ended(records):
        errors[run.header.seed][run.header.condition] = _error(run)
    n = len(ALONE.data.conditions)
    return {seed: sum(own.values()) / n for seed, own in errors.items() if len(own) == n}


def _section(records: Sequence[RunRecord]) -> "OwnSection":
    from ..analysis import estimate
    from ..report import Column, OwnSection, make_table

    own, means = _ended(records), list(mean_errors(records).values())
    rows: list[tuple[str, Estimate, str]] = []
    if means:
        rows.append(("Mean over alphabets", estimate(means), PUBLISHED))
    for name in ALONE.data.conditions:
        errors = [_error(run) for run in own if run.header.condition == name]
        rows += [(name, estimate(errors), "")] if errors else []
    columns: list[Column[tuple[str, Estimate, str]]] = [
        Column("Alphabet", lambda row: row[0], kind="name"),
        Column("Published", lambda row: row[2] or "–"),
        Column("Test error, %", lambda row: str(row[1])),
    ]
    caption = "A network for each alphabet, of the size of the one that all share elsewhere"
    told = f"the mean test error over alphabets is {rows[0][1]} %" if means else "not run yet"
    return OwnSection(
        sentences=(
            f"With a network for each alphabet {told}. Published: {PUBLISHED}, with networks of "
            "another kind.",
        ),
        tables=(make_table(columns, rows, caption),) if rows else (),
    )


ALONE = replace(
    OMNIGLOT_TUNED,
    name=NAME,
    summary="a network for each of the 20 alphabets, trained well",
    tasks=lambda choice: [_tasks(choice.data_folder)[choice.condition]],
    network=_network,
    methods=(
        Method(
            name="single_task",
            label=LABEL,
            allocation=using(SharedBottom),
            # A step a round, as in joint steps, so at their rates.
            training=ALL | ELASTIC,
        ),
    ),
    n_runs=2,
    data=DataOptions(
        sets=("omniglot",),
        conditions=(*alphabets(leaking=False), *alphabets(leaking=True)),
        joined=True,
    ),
    report=ReportOptions(
        title="Twenty alphabets of Omniglot, a network for each",
        place="Table II",
        shows="error",
        shows_allocation=False,
        own=_section,
    ),
)
