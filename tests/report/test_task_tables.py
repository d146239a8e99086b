from dataclasses import replace

from allotment.report import ExpectedRow
from allotment.report._section import section
from allotment.report._section_tables import section_tables
from allotment.report._task_tables import task_tables
from tests.report.expected import TWO_PAIRS, runs
from tests.report.suites import CLUSTER_TASKS, OMNIGLOT, alphabets_run, clusters_run
from tests.report.test_relatedness import CLUSTERS

CLUSTER_RUNS = [clusters_run(seed) for seed in range(3)]


def test_families_and_tasks_have_a_line_each() -> None:
    families, tasks = task_tables(section(CLUSTER_RUNS, CLUSTERS))
    assert families.head == ("Family", "Gumbel-Matrix")
    # Accuracies of 90.0, 90.1 and 90.2 % in every task.
    assert families.rows == tuple(
        (name, "90.10 ± 0.10") for name in ("CIFAR-100", "MNIST", "Fashion-MNIST")
    )
    assert [row[0] for row in tasks.rows] == list(CLUSTER_TASKS)
    assert tasks.caption.startswith("Test accuracy, %, by task")


def test_an_error_is_shown_as_one_and_methods_stand_beside_each_other() -> None:
    found = [alphabets_run(0), alphabets_run(0, method="shared_bottom")]
    (tasks,) = task_tables(section(found, OMNIGLOT))
    assert tasks.head == ("Task", "Shared bottom", "Gumbel-Matrix")
    assert {row[1:] for row in tasks.rows} == {("7", "6.5")}
    both = replace(
        OMNIGLOT, rows=(*OMNIGLOT.rows, ExpectedRow(method="more", label="More", learnt=True))
    )
    assert task_tables(section(found, both))[0].head == tasks.head  # nothing was run of it


def test_few_tasks_have_none() -> None:
    assert task_tables(section(runs("gumbel", [0.3, 0.4]), TWO_PAIRS)) == []
    assert task_tables(section([], CLUSTERS)) == []
    assert len(section_tables(section(CLUSTER_RUNS, CLUSTERS))) > 3
