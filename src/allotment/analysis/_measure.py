"""What an experiment reports of each run and task, and which runs found families or went wrong."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .._schema import Evaluation, Floats
from ..records import RunRecord
from ._arguments import check_groups, of_runs
from ._clusters import cut, linkage, numbered
from ._embeddings import cosine_similarity, distinct_groups, embeddings
from ._estimate import Estimate, estimate
from ._usage import used_shares

_TIMES_CHANCE = 1.5
_LOWEST_ACCURACY = 0.2  # where the number of classes is not recorded


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the runs of one method under one condition say together."""

    measure: Estimate  # over the runs that reached their end
    validation: Estimate  # accuracy, mean over tasks; of no run where there is none
    share_active: Estimate  # of the components that tasks use in evaluation
    n_runs: int
    n_failed: int
    n_collapsed: int
    n_uniform: int | None  # runs in which the tasks of each family share one row; None: not asked
    n_recovered: int | None  # of those, runs in which different families have different rows too
    n_separated: int | None  # runs in which the clusters of the embeddings are the families


@of_runs
def measure(record: RunRecord) -> float:
    """Returns what the experiment reports of a run; NaN where the run failed.

    That is the training loss at the end, or the mean over tasks of the test loss, of the test
    accuracy, 0 to 1, or of each task's own metric on the test split.
    """
    return _measured(record, record.outcome.test)


@of_runs
def validation_measure(record: RunRecord) -> float:
    """Returns the same of a run on the validation splits, to choose by; NaN where it failed.

    Where a training loss is reported, it is the validation loss, or else the training loss again.
    """
    seen = record.outcome.validation
    if record.header.measure == "loss" and record.finished and seen is not None:
        return _mean_of_known(seen.losses)
    return _measured(record, seen)


def _measured(record: RunRecord, seen: Evaluation | None) -> float:
    name = record.header.measure
    if not record.finished:
        return math.nan
    if name == "loss":
        return record.outcome.final_loss
    if name == "test_loss":
        return math.nan if seen is None else float(seen.losses.mean())
    return _score(seen) if name == "score" else _accuracy(seen)


def _score(seen: Evaluation | None) -> float:
    """Returns the mean over tasks of their own metrics; NaN where a task has none."""
    return math.nan if seen is None or not seen.metrics else float(np.mean(_own_metrics(seen)))


def _own_metrics(seen: Evaluation) -> list[float]:
    """Returns each task's metric; the mean of them where it has several, NaN where it has none."""
    return [_mean_of_known(of_task) for of_task in np.stack(list(seen.metrics.values())).T]


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


def is_uniform(record: RunRecord) -> bool | None:
    """Returns whether all tasks of each family have the same row.

    None where the record names no families, or where rows hold shares, which are never the same.
    """
    families = record.header.families
    if not families or not record.header.is_binary:
        return None
    rows = {(family, tuple(row)) for family, row in zip(families, embeddings(record), strict=True)}
    return len(rows) == len(set(families))


def recovers(record: RunRecord) -> bool | None:
    """Returns whether the allocation shows the families of the tasks.

    It does when all tasks of a family have the same row and different families have different rows.
    None where `is_uniform` is.
    """
    uniform = is_uniform(record)
    n_different = len(distinct_groups(embeddings(record)))
    return uniform and n_different == len(set(record.header.families))


def separates(record: RunRecord) -> bool | None:
    """Returns whether clusters of the embeddings, as many as families, are the families.

    That asks less than `recovers`: the tasks of a family may have different rows. None where the
    record names no families.
    """
    families = record.header.families
    if not families:
        return None
    tree = linkage(cosine_similarity(embeddings(record)))
    return cut(tree, len(set(families))) == numbered(families)


@of_runs
def n_suites(records: Sequence[RunRecord]) -> int:
    """Returns how many different suites of tasks the runs are of."""
    return len({(record.header.task_names, record.header.families) for record in records})


def check_one_suite(records: Sequence[RunRecord]) -> None:
    """Raises unless there is a run, and all runs are of the same tasks."""
    if n_suites(records) != 1:
        raise ValueError(
            "`records` should be finished runs of the same tasks. Found "
            f"{len(records)} finished runs of {n_suites(records)} suites of tasks."
        )


@of_runs
def group_runs(records: Sequence[RunRecord]) -> dict[tuple[str, str, str], list[RunRecord]]:
    """Returns the runs of each (experiment, condition, method), in order of seed."""
    groups: defaultdict[tuple[str, str, str], list[RunRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.header.seed):
        header = record.header
        groups[header.experiment, header.condition, header.method].append(record)
    return dict(groups)


@of_runs
def summarise(records: Sequence[RunRecord]) -> Summary:
    """Returns what the runs of one group say together; failed runs are only counted."""
    finished = [record for record in records if record.finished]
    return Summary(
        measure=estimate(measure(record) for record in finished),
        validation=estimate(_accuracy(record.outcome.validation) for record in finished),
        share_active=estimate(used_shares(record).mean() for record in finished),
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


@of_runs
def typical_run(records: Sequence[RunRecord]) -> RunRecord | None:
    """Returns the run with the median measure (the lower of two), if any reached its end."""
    finished = [record for record in records if math.isfinite(measure(record))]
    ordered = sorted(finished, key=measure)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


@of_runs
def accuracy_by_task(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns the test accuracy of each task by name, over the runs that reached their end.

    Empty where no run has test accuracies; of no run for a task that has none.
    """
    finished = [record for record in records if record.finished]
    names = finished[0].header.task_names if finished else ()
    return accuracy_by_group(finished, {name: [name] for name in names})


@of_runs
def loss_by_task(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns the test loss of each task by name, over the runs that reached their end.

    Empty where no run was tested.
    """
    finished = [record for record in records if record.finished and record.outcome.test is not None]
    if not finished:
        return {}
    check_one_suite(finished)
    losses = np.stack([r.outcome.test.losses for r in finished if r.outcome.test is not None])
    names = finished[0].header.task_names
    return {name: estimate(column) for name, column in zip(names, losses.T, strict=True)}


@of_runs
def score_by_task(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns each task's own metric on the test split, with the metric's name, over runs.

    Empty where the mean over them is not what is reported.
    """
    tests = [
        (record.header, record.outcome.test)
        for record in records
        if record.finished and record.header.measure == "score" and record.outcome.test is not None
    ]
    if not tests:
        return {}
    header, first = tests[0]
    named = [f"{task} ({_metrics_of(t, first)})" for t, task in enumerate(header.task_names)]
    columns = zip(*(_own_metrics(test) for _, test in tests), strict=True)
    return {name: estimate(column) for name, column in zip(named, columns, strict=True)}


def _metrics_of(task: int, seen: Evaluation) -> str:
    """Returns the names of the metrics that a task has."""
    return ", ".join(name for name, own in seen.metrics.items() if not np.isnan(own[task]))


@of_runs
def accuracy_by_family(records: Sequence[RunRecord]) -> dict[str, Estimate]:
    """Returns the mean test accuracy over the tasks of each family, over runs.

    Tasks without an accuracy do not count. Empty where no run has test accuracies, or where the
    records name no families.
    """
    finished = [record for record in records if record.finished]
    groups: dict[str, list[str]] = {}
    header = finished[0].header if finished else None
    for name, family in zip(header.task_names, header.families, strict=False) if header else ():
        groups.setdefault(family, []).append(name)
    return accuracy_by_group(finished, groups)


@of_runs
def accuracy_by_group(
    records: Sequence[RunRecord], groups: Mapping[str, Collection[str]]
) -> dict[str, Estimate]:
    """Returns the mean test accuracy over the tasks of each group, given by name, over runs.

    Tasks without an accuracy do not count. Empty where no run has test accuracies.

    Args:
        records: Runs of one method.
        groups: Names of tasks, by the name of their group.
    """
    check_groups(groups)
    finished = [record for record in records if record.finished]
    accuracies = _accuracies(finished)
    if not len(accuracies):
        return {}
    names = finished[0].header.task_names
    for group, members in groups.items():
        if not members or not set(members) <= set(names):
            raise ValueError(
                f"Groups should name tasks of the records. Found `{group!r}: {list(members)}`, "
                f"where the tasks are {list(names)}."
            )
    return {
        group: estimate(map(_mean_of_known, accuracies[:, np.isin(names, list(members))]))
        for group, members in groups.items()
    }


def _accuracies(finished: Sequence[RunRecord]) -> Floats:
    """Returns the test accuracies of the runs that have them, shape ``[R, T]``."""
    if finished:
        check_one_suite(finished)
    tests = [record.outcome.test for record in finished]
    known = [test.accuracies for test in tests if test is not None and test.accuracies is not None]
    return np.stack(known) if known else np.empty((0, 0))


def _mean_of_known(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
