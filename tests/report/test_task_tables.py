from dataclasses import replace

import numpy as np

from allotment.report import ReportRow
from allotment.report._pages import section_tables
from allotment.report._results import by_checkpoint, by_family, by_group, by_task
from allotment.report._section import section
from tests.records.made_up import accuracy_run, an_evaluation
from tests.report.suites import ALPHABETS, CLUSTER_TASKS, OMNIGLOT, alphabets_run, clusters_run
from tests.report.test_relatedness import CLUSTERS

CLUSTER_RUNS = [clusters_run(seed) for seed in range(3)]


def test_families_and_tasks_have_a_line_each() -> None:
    part = section(CLUSTER_RUNS, CLUSTERS)
    families, tasks = by_family(part), by_task(part)
    assert families is not None and tasks is not None
    assert families.head == ("Family", "Gumbel-Matrix (n=3)")
    # Accuracies of 90.0, 90.1 and 90.2 % in every task.
    assert families.rows == tuple(
        (name, "90.10 ± 0.10 sd") for name in ("CIFAR-100", "MNIST", "Fashion-MNIST")
    )
    assert [row[0] for row in tasks.rows] == list(CLUSTER_TASKS)
    assert tasks.caption.startswith("Test accuracy, %, by task")


def test_an_error_is_shown_as_one_and_methods_stand_beside_each_other() -> None:
    found = [alphabets_run(0), alphabets_run(0, method="shared_bottom")]
    part = section(found, OMNIGLOT)
    tasks = by_task(part)
    assert tasks is not None
    assert by_family(part) is None
    alone = "(n=1, no spread)"
    assert tasks.head == ("Task", f"Shared bottom {alone}", f"Gumbel-Matrix {alone}")
    assert {row[1:] for row in tasks.rows} == {("7", "6.5")}
    both = replace(
        OMNIGLOT, rows=(*OMNIGLOT.rows, ReportRow(method="more", label="More", learnt=True))
    )
    again = by_task(section(found, both))
    assert again is not None
    assert again.head == tasks.head  # nothing was run of it


def test_groups_have_their_lines_where_an_experiment_names_some() -> None:
    found = [alphabets_run(0), alphabets_run(0, method="shared_bottom")]
    assert by_group(section(found, OMNIGLOT)) is None
    apart = replace(OMNIGLOT, groups={"two": ALPHABETS[:2], "the rest": ALPHABETS[2:]})
    groups = by_group(section(found, apart))
    assert groups is not None
    assert [row[0] for row in groups.rows] == ["two", "the rest"]
    assert {row[1:] for row in groups.rows} == {("7", "6.5")}
    assert groups in section_tables(section(found, apart))


def test_validation_stands_by_the_checkpoint_that_it_is_taken_from() -> None:
    found = [alphabets_run(0), alphabets_run(0, method="shared_bottom")]
    table = by_checkpoint(section(found, OMNIGLOT))
    assert table is not None
    assert table.caption.startswith("Validation error, %, by checkpoint")
    best, each, half = table.rows
    assert best[1:] == each[1:]  # in made-up runs all tasks are alike
    assert all(float(late) > float(first) for late, first in zip(half[1:], best[1:], strict=True))
    assert table in section_tables(section(found, OMNIGLOT))
    assert by_checkpoint(section(CLUSTER_RUNS, CLUSTERS)) is None  # the last weights are tested


def test_few_tasks_have_none() -> None:
    few = [accuracy_run([0.9, 0.8, 0.7, 0.6], experiment="clusters")]
    assert by_task(section(few, CLUSTERS)) is None
    assert by_task(section([], CLUSTERS)) is None


def test_losses_and_runs_of_different_tasks_have_none() -> None:
    first = CLUSTER_RUNS[0]
    by_loss = replace(first, header=replace(first.header, measure="loss"))
    assert by_task(section([by_loss], CLUSTERS)) is None
    names = first.header.task_names
    renamed = replace(first, header=replace(first.header, task_names=names[::-1], seed=7))
    assert by_task(section([first, renamed], CLUSTERS)) is None


def test_a_task_without_accuracy_is_left_open() -> None:
    first = CLUSTER_RUNS[0]
    accuracies = np.full(40, 0.9)
    accuracies[0] = np.nan
    mixed = replace(first, outcome=replace(first.outcome, test=an_evaluation(accuracies)))
    tasks = by_task(section([mixed], CLUSTERS))
    assert tasks is not None
    assert [row[1] for row in tasks.rows[:2]] == ["–", "90"]
    assert tasks.head[1] == "Gumbel-Matrix (n=1, no spread)"
    together = by_task(section([mixed, *CLUSTER_RUNS[1:]], CLUSTERS))  # two runs of the first task
    assert together is not None
    assert together.head[1] == "Gumbel-Matrix"
    assert [row[1][-5:] for row in together.rows[:2]] == ["(n=2)", "(n=3)"]


def test_families_stand_near_the_results_and_tasks_at_the_end() -> None:
    heads = [table.head[0] for table in section_tables(section(CLUSTER_RUNS, CLUSTERS))]
    assert (heads[0], heads[1], heads[-1]) == ("Method", "Family", "Task")
