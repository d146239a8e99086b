from dataclasses import replace

from allotment.report import ExpectedRow
from allotment.report._section import section
from allotment.report._section_tables import section_tables
from allotment.report._task_tables import by_family, by_task
from tests.report.expected import TWO_PAIRS, runs
from tests.report.suites import CLUSTER_TASKS, OMNIGLOT, alphabets_run, clusters_run
from tests.report.test_relatedness import CLUSTERS

CLUSTER_RUNS = [clusters_run(seed) for seed in range(3)]


def test_families_and_tasks_have_a_line_each() -> None:
    part = section(CLUSTER_RUNS, CLUSTERS)
    families, tasks = by_family(part), by_task(part)
    assert families is not None and tasks is not None
    assert families.head == ("Family", "Gumbel-Matrix")
    # Accuracies of 90.0, 90.1 and 90.2 % in every task.
    assert families.rows == tuple(
        (name, "90.10 ± 0.10") for name in ("CIFAR-100", "MNIST", "Fashion-MNIST")
    )
    assert [row[0] for row in tasks.rows] == list(CLUSTER_TASKS)
    assert tasks.caption.startswith("Test accuracy, %, by task")


def test_an_error_is_shown_as_one_and_methods_stand_beside_each_other() -> None:
    found = [alphabets_run(0), alphabets_run(0, method="shared_bottom")]
    part = section(found, OMNIGLOT)
    tasks = by_task(part)
    assert tasks is not None
    assert by_family(part) is None
    assert tasks.head == ("Task", "Shared bottom", "Gumbel-Matrix")
    assert {row[1:] for row in tasks.rows} == {("7", "6.5")}
    both = replace(
        OMNIGLOT, rows=(*OMNIGLOT.rows, ExpectedRow(method="more", label="More", learnt=True))
    )
    again = by_task(section(found, both))
    assert again is not None
    assert again.head == tasks.head  # nothing was run of it


def test_few_tasks_have_none() -> None:
    assert by_task(section(runs("gumbel", [0.3, 0.4]), TWO_PAIRS)) is None
    assert by_task(section([], CLUSTERS)) is None


def test_families_stand_near_the_results_and_tasks_at_the_end() -> None:
    heads = [table.head[0] for table in section_tables(section(CLUSTER_RUNS, CLUSTERS))]
    assert (heads[0], heads[1], heads[-1]) == ("Method", "Family", "Task")
