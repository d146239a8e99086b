"""What an experiment reports of each run, and which runs went wrong."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .._schema import Evaluation
from ..records import RunRecord

from ._embeddings import is_uniform, recovers
from ._estimate import Estimate, estimate
from ._relatedness import separates

_TIMES_CHANCE = 1.5
_LOWEST_ACCURACY = 0.2  # where the number of classes is not recorded

GroupKey = tuple[str, str, str]  # experiment, condition, method


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the runs of one method under one condition say together."""

    measure: Estimate  # over the runs that reached their end
    validation: Estimate  # accuracy, mean over tasks; of no run where there is none
    share_active: Estimate  # of the gates, under the evaluation rule
    n_runs: int
    n_failed: int
    n_collapsed: int
    n_uniform: int | None  # runs in which the tasks of each family share one row
    n_recovered: int | None  # of those, runs in which different families have different rows too
    n_separated: int | None  # runs in which the clusters of the embeddings are the families


def measure(record: RunRecord) -> float:
    """Returns what the experiment reports of a run; NaN where the run failed.

    That is the loss at the end, or the mean over tasks of the test accuracy, 0 to 1.
    """
    if not record.finished:
        return math.nan
    if record.header.measure == "loss":
        return record.outcome.final_loss
    return _accuracy(record.outcome.test)


def collapsed(record: RunRecord) -> bool:
    """Returns whether a run that reached its end learnt nothing of some task.

    It did when the test accuracy of at least one task is at most 1.5 times chance, chance being one
    in its number of classes; where that is not recorded, at most 0.2. A run without test accuracies
    is never called collapsed.
    """
    test = record.outcome.test
    if not record.finished or test is None or test.accuracies is None:
        return False
    classes = record.header.n_classes
    limits = _TIMES_CHANCE / np.array(classes) if classes else _LOWEST_ACCURACY
    return bool((test.accuracies <= limits).any())


def share_active(record: RunRecord) -> float:
    """Returns the share of gates that are open under the evaluation rule, 0 to 1."""
    return float((record.outcome.matrix > 0).mean())


def group_runs(records: Sequence[RunRecord]) -> dict[GroupKey, list[RunRecord]]:
    """Returns the runs of each (experiment, condition, method), in order of seed."""
    groups: dict[GroupKey, list[RunRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.header.seed):
        header = record.header
        groups[header.experiment, header.condition, header.method].append(record)
    return dict(groups)


def summarise(records: Sequence[RunRecord]) -> Summary:
    """Returns what the runs of one group say together; failed runs are only counted."""
    finished = [record for record in records if record.finished]
    return Summary(
        measure=estimate(measure(record) for record in finished),
        validation=estimate(_accuracy(record.outcome.validation) for record in finished),
        share_active=estimate(share_active(record) for record in finished),
        n_runs=len(records),
        n_failed=len(records) - len(finished),
        n_collapsed=sum(collapsed(record) for record in finished),
        n_uniform=_count(is_uniform(record) for record in finished),
        n_recovered=_count(recovers(record) for record in finished),
        n_separated=_count(separates(record) for record in finished),
    )


def _accuracy(seen: Evaluation | None) -> float:
    """Returns the mean accuracy over tasks, 0 to 1; NaN where none was seen."""
    if seen is None or seen.accuracies is None:
        return math.nan
    return float(seen.accuracies.mean())


def _count(answers: Iterable[bool | None]) -> int | None:
    """Returns how many answers are yes; None where there is none, or one is not known."""
    known = list(answers)
    return None if not known or None in known else sum(map(bool, known))


def typical_run(records: Sequence[RunRecord]) -> RunRecord | None:
    """Returns the run with the median measure (the lower of two), if any reached its end."""
    finished = [record for record in records if math.isfinite(measure(record))]
    ordered = sorted(finished, key=measure)
    return ordered[(len(ordered) - 1) // 2] if ordered else None
