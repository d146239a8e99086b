from dataclasses import replace

from allotment.report import Expectation, ExpectedRow, html_page, markdown_results, words
from allotment.report._relatedness import relatedness_tables
from allotment.report._section import section
from allotment.report._section_tables import section_tables
from tests.report.expected import MNIST, TWO_PAIRS, runs
from tests.report.suites import OMNIGLOT, alphabets_run, clusters_run

CLUSTERS = Expectation(
    experiment="clusters",
    title="Three clusters",
    place="",
    measure="Test accuracy",
    unit="%",
    rows=(ExpectedRow(method="gumbel", label="Gumbel-Matrix", learnt=True),),
)
CLUSTER_RUNS = [clusters_run(seed) for seed in range(3)]


def test_small_suites_with_families_have_one_table_of_their_embeddings() -> None:
    (table,) = relatedness_tables(section(runs("gumbel", [0.3, 0.4], recovered=2), TWO_PAIRS))
    assert table.head == ("Task embeddings", "Gumbel-Matrix")
    lines = {row[0]: row[1] for row in table.rows}
    assert lines["Distinct embeddings"] == "2.00 ± 0.00 sd (n=2)"
    assert lines["Adjusted Rand index with the families, as many clusters"] == "1.00 (1.00 to 1.00)"
    assert lines["Similarity across families"] == "0.00 (0.00 to 0.00)"


def test_methods_that_learn_nothing_have_none() -> None:
    assert relatedness_tables(section(runs("no_sharing", [0.3, 0.4]), TWO_PAIRS)) == []
    assert relatedness_tables(section([], MNIST)) == []


def test_the_papers_number_of_embeddings_stands_beside_ours() -> None:
    tables = relatedness_tables(section([alphabets_run(seed) for seed in range(3)], OMNIGLOT))
    lines = {row[0]: row[1] for row in tables[0].rows}
    assert lines["Distinct embeddings, paper"] == "10.1"
    assert lines["Distinct embeddings"] == "10.00 ± 0.00 sd (n=3)"
    assert not any("families" in label for label in lines)


def test_many_tasks_have_tables_of_families_and_of_groups() -> None:
    _, families, groups = relatedness_tables(section(CLUSTER_RUNS, CLUSTERS))
    assert [row[0] for row in families.rows] == ["CIFAR-100", "MNIST", "Fashion-MNIST"]
    assert families.rows[1][:4] == ("MNIST", "10", "1.00 ± 0.00 sd (n=3)", "3 of 3")
    assert families.head[-3:] == ("to CIFAR-100", "to MNIST", "to Fashion-MNIST")
    assert families.rows[1][-1] == families.rows[2][-2]  # the same similarity, seen from either
    assert "; chance 0." in families.rows[1][-1]
    names = [name for row in groups.rows for name in row[1].split(", ")]
    assert sorted(names) == sorted(CLUSTER_RUNS[0].header.task_names)
    assert {row[0] for row in groups.rows} == {"1", "2", "3"}


def test_what_the_paper_says_of_clusters_is_told_in_words() -> None:
    said = words(CLUSTER_RUNS, CLUSTERS)
    assert (
        "Gumbel-Matrix: runs in which all tasks of a family have one embedding: CIFAR-100 0 of 3, "
        "MNIST 3 of 3, Fashion-MNIST 3 of 3."
    ) in said
    (nearest,) = [sentence for sentence in said if "nearest" in sentence]
    assert "nearest to each other are MNIST and Fashion-MNIST" in nearest
    assert "in 3 of 3 runs nearer than any other two" in nearest
    assert (
        "Gumbel-Matrix: the task most similar to a task is of its own family for 100 % of the "
        "tasks, over runs; cut into as many clusters as there are families, the embeddings give "
        "the families in 3 of 3."
    ) in said
    (shares,) = [sentence for sentence in said if "gates open" in sentence]
    assert "a task has between 50 % (CIFAR fish) and 58 %" in shares
    assert shares.endswith(", at most 60.4 % in any run; the budget is 50 %.")


def test_strict_recovery_is_not_asked_of_many_tasks() -> None:
    table = section_tables(section(CLUSTER_RUNS, CLUSTERS))[0]
    assert table.rows[0][table.head.index("Found the families, as clusters")] == "3 of 3"
    assert table.rows[0][table.head.index("Most similar task is of the family")] == "100 %"
    assert "Found the families of tasks" not in table.head
    assert "One row a family" not in table.head


def test_the_tables_are_on_both_pages() -> None:
    found = [*CLUSTER_RUNS, *(alphabets_run(seed) for seed in range(2))]
    text = markdown_results(found, [CLUSTERS, OMNIGLOT])
    page = html_page(found, [CLUSTERS, OMNIGLOT])
    for content in (text, page):
        assert "Who shares an embedding, Gumbel-Matrix, seed 0" in content
        assert "Families of tasks, Gumbel-Matrix" in content
        assert "Gates open by layer and kind, Gumbel-Matrix" in content
        assert "Anglo-Saxon Futhorc, Atemayar Qelisayer" in content


def test_a_remark_is_told_where_there_are_runs() -> None:
    remarked = replace(CLUSTERS, remark="Mind the linkage.")
    for show in (markdown_results, html_page):
        assert "Mind the linkage." in show(CLUSTER_RUNS, [remarked])
        assert "Mind the linkage." not in show([], [remarked])


def test_an_experiment_may_be_about_accuracy_alone() -> None:
    plain = replace(CLUSTERS, shows_allocation=False)
    text, page = markdown_results(CLUSTER_RUNS, [plain]), html_page(CLUSTER_RUNS, [plain])
    for content in (text, page):
        assert "Fashion without Ankle boot" in content  # its accuracy
        assert "embedding" not in content
        assert "Gates open by layer" not in content
    assert "allocation.png" not in text
