"""Which tasks belong together, from trained runs to tables and figures."""

from pathlib import Path

from pytest import approx, mark

from allotment.analysis import cluster, cosine_similarity, embeddings, relatedness
from allotment.records import read_runs
from tests.cli.conftest import Command

RUN = ("run", "two_pairs", "--method", "gumbel", "--out", "out")
FIGURES = {
    f"two_pairs-gumbel-{name}.{ending}"
    for name in ("allocation", "similarity", "tree", "mds")
    for ending in ("png", "svg")
}


@mark.slow
def test_the_pairs_of_trained_runs_are_found_and_shown(allotment: Command) -> None:
    assert allotment(*RUN, "--runs", "5", "--rounds", "300").status == 0
    records = read_runs(Path("out"))
    found = relatedness(records)
    for record in records:
        assert cluster(cosine_similarity(embeddings(record))).labels == (0, 0, 1, 1)
    assert found.stability == 1.0
    assert found.known is not None
    assert found.known.agreement_at_known.mean == 1.0
    assert found.known.within.mean == approx(1.0)
    assert found.known.across.interval[1] < 1.0

    answer = allotment("embeddings", "out", "-o", "pictures")
    assert (answer.status, answer.error) == (0, "")
    for text in (
        "two_pairs: Gumbel-Matrix (5 runs)",
        "Distinct embeddings ",
        "Who shares an embedding",
        "How much of the network each task uses",
        "pictures",
    ):
        assert text in answer.out
    with_families = "Adjusted Rand index with the families, as many clusters 1.00 (1.00 to 1.00)"
    lines = [line.split() for line in answer.out.splitlines()]
    assert with_families.split() in lines
    assert ["1", "1a,", "1b", "2"] in [line[:4] for line in lines]
    assert ["2", "2a,", "2b", "2"] in [line[:4] for line in lines]
    assert {path.name for path in Path("pictures").iterdir()} == FIGURES


def test_one_run_is_enough_and_naming_it_twice_changes_nothing(allotment: Command) -> None:
    allotment(*RUN, "--runs", "1")
    once = allotment("embeddings", "out/gumbel/seed-000")
    twice = allotment("embeddings", "out/gumbel/seed-000", "./out/gumbel/seed-000")
    assert once.status == 0
    assert "two_pairs: Gumbel-Matrix (1 run)" in once.out
    assert twice.out == once.out
    assert {path.name for path in Path("embeddings").iterdir()} == FIGURES


def test_fixed_methods_are_shown_where_nothing_was_learnt(allotment: Command) -> None:
    allotment("run", "two_pairs", "--runs", "1", "--out", "out")
    assert "No sharing" not in allotment("embeddings", "out").out
    alone = allotment("embeddings", "out/no_sharing").out
    assert "two_pairs: No sharing (1 run)" in alone
    assert "4 (n=1, no spread)" in alone


def test_an_output_that_is_a_file_is_refused(allotment: Command) -> None:
    allotment(*RUN, "--runs", "1")
    Path("taken").write_text("")
    answer = allotment("embeddings", "out", "-o", "taken")
    assert answer.status == 1
    assert "`output` should be a folder. Found the file taken." in answer.error


def test_an_output_beneath_a_file_is_refused_before_anything_is_said(allotment: Command) -> None:
    allotment(*RUN, "--runs", "1")
    Path("taken").write_text("")
    answer = allotment("embeddings", "out", "-o", "taken/pictures")
    assert (answer.status, answer.out) == (1, "")
    assert "should be one to read or write. Found `taken/pictures`: Not a dir" in answer.error
