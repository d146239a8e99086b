from dataclasses import replace

import numpy as np

from allotment.analysis import relatedness
from allotment.records import RunRecord
from allotment.report import ReportRow, ReportSpec, html_page, markdown_results, summary_text
from allotment.report._allocations import relatedness_tables
from allotment.report._pages import section_tables
from allotment.report._section import section
from tests.records.made_up import a_record, an_evaluation
from tests.report.expected import MNIST, TWO_PAIRS, runs
from tests.report.suites import OMNIGLOT, alphabets_run, clusters_run

CLUSTERS = ReportSpec(
    experiment="clusters",
    title="Three clusters",
    place="",
    measure="Test accuracy",
    unit="%",
    rows=(ReportRow(method="gumbel", label="Gumbel-Matrix", learnt=True),),
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
    _, families, similar, cuts, groups = relatedness_tables(section(CLUSTER_RUNS, CLUSTERS))
    assert [row[0] for row in families.rows] == ["CIFAR-100", "MNIST", "Fashion-MNIST"]
    assert families.rows[1][:4] == ("MNIST", "10", "1.00 ± 0.00 sd (n=3)", "3 of 3")
    assert similar.head == ("Similarity", "CIFAR-100", "MNIST", "Fashion-MNIST")
    assert similar.rows[1][3] == similar.rows[2][2]  # the same similarity, seen from either
    known = relatedness(CLUSTER_RUNS).known
    assert known is not None
    cifar, near = known.families[0], known.pairs[0]
    assert similar.rows[1][3].endswith(f"; chance {near.by_chance.mean:.2f}")
    assert similar.rows[0][1].endswith(f"; chance {cifar.within_by_chance.mean:.2f}")
    chance = 100 * cifar.own_nearest_by_chance.mean
    assert families.rows[0][4] == f"100 % (chance {chance:.0f} %)"
    assert families.rows[0][5] == ", ".join(f"{p:.2g}" for p in cifar.p_values)
    assert families.rows[1][5] == "–"
    assert cuts.rows[1] == ("1", "1.00", "20 CIFAR-100; 10 MNIST; 10 Fashion-MNIST")
    names = [name for row in groups.rows for name in row[1].split(", ")]
    assert sorted(names) == sorted(CLUSTER_RUNS[0].header.task_names)
    assert {row[0] for row in groups.rows} == {"1", "2", "3"}


def test_what_the_paper_says_of_clusters_is_told_in_words() -> None:
    said = summary_text(CLUSTER_RUNS, CLUSTERS)
    assert (
        "Gumbel-Matrix: runs in which all tasks of a family have one embedding: CIFAR-100 0 of 3, "
        "MNIST 3 of 3, Fashion-MNIST 3 of 3."
    ) in said
    (nearest,) = [sentence for sentence in said if "nearest" in sentence]
    assert "nearest to each other are MNIST and Fashion-MNIST" in nearest
    assert "in 3 of 3 runs no other two are as near" in nearest
    (own,) = [sentence for sentence in said if "own family" in sentence]
    assert own.startswith("Gumbel-Matrix: 100 % (chance ")
    assert "of the CIFAR-100 tasks are nearer to their own family" in own
    assert (
        "Gumbel-Matrix: cut into 3 clusters, the tree of the embeddings gives the families in 3 of "
        "3 runs."
    ) in said
    (shares,) = [sentence for sentence in said if "gates open" in sentence]
    assert "a task has between 50 % (CIFAR fish) and 58 %" in shares
    assert shares.endswith(", and no task in any run more than 60.4 %; the budget is 50 %.")


def test_a_task_that_uses_everything_is_not_said_to_use_no_more_than_that() -> None:
    run = alphabets_run(0)
    matrix = run.outcome.matrix.copy()
    matrix[0] = 1.0
    said = summary_text([replace(run, outcome=replace(run.outcome, matrix=matrix))], OMNIGLOT)
    (shares,) = [sentence for sentence in said if "gates open over runs" in sentence]
    assert shares.endswith("of the gates open over runs.")


def test_strict_recovery_is_not_asked_of_many_tasks() -> None:
    table = section_tables(section(CLUSTER_RUNS, CLUSTERS))[0]
    assert table.rows[0][table.head.index("Found the families, as clusters")] == "3 of 3"
    ones = table.rows[0][table.head.index("Families with one row")]
    assert ones == "MNIST 3 of 3, Fashion-MNIST 3 of 3"
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


def test_families_that_are_not_found_are_not_said_to_be() -> None:
    mixed = clusters_run(3)
    rows = mixed.outcome.matrix[np.random.default_rng(0).permutation(40)]
    runs = [*CLUSTER_RUNS, replace(mixed, outcome=replace(mixed.outcome, matrix=rows))]
    said = summary_text(runs, CLUSTERS)
    assert any("gives the families in 3 of 4 runs" in sentence for sentence in said)
    _, _, _, cuts, _ = relatedness_tables(section(runs, CLUSTERS))
    assert float(cuts.rows[3][1]) < 0.5


def test_families_of_one_task_have_no_nearest_family() -> None:
    alone = [a_run_alone(seed) for seed in range(2)]
    text = markdown_results(alone, [CLUSTERS])
    assert "nan" not in text
    assert "own family" not in "".join(summary_text(alone, CLUSTERS))


def test_one_family_has_no_other_to_be_nearer_to() -> None:
    one = [replace(run, header=replace(run.header, families=("all",) * 40)) for run in CLUSTER_RUNS]
    said = "".join(summary_text(one, CLUSTERS))
    assert "own family" not in said
    assert "sets of as many" not in said
    assert "nan" not in markdown_results(one, [CLUSTERS])


def a_run_alone(seed: int) -> RunRecord:
    """A run of nine tasks, each a family."""
    run = clusters_run(seed)
    names = run.header.task_names[:9]
    outcome = replace(
        run.outcome,
        matrix=run.outcome.matrix[:9],
        probabilities=run.outcome.probabilities[:9],
        test=an_evaluation(np.full(9, 0.9)),
    )
    header = replace(run.header, task_names=names, families=names, n_classes=(5,) * 9)
    return a_record(header, outcome)


def test_a_remark_stands_on_the_results_page_alone() -> None:
    remarked = replace(CLUSTERS, remark="Mind the linkage.")
    assert "Mind the linkage." in markdown_results(CLUSTER_RUNS, [remarked])
    assert "Mind the linkage." not in html_page(CLUSTER_RUNS, [remarked])  # of anybody's runs


def test_an_experiment_may_be_about_accuracy_alone() -> None:
    plain = replace(CLUSTERS, shows_allocation=False)
    text, page = markdown_results(CLUSTER_RUNS, [plain]), html_page(CLUSTER_RUNS, [plain])
    for content in (text, page):
        assert "Fashion without Ankle boot" in content  # its accuracy
        assert "embedding" not in content
        assert "Gates open by layer" not in content
    assert "allocation.png" not in text
