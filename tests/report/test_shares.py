"""Allocations that are not binary: tasks have shares of components."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from pytest import fixture, mark

from allotment._schema import Floats
from allotment.records import RunRecord, keep, read_kept
from allotment.report import (
    ReportRow,
    brief_table,
    embeddings_views,
    html_page,
    markdown_results,
    result_table,
    summary_text,
    write_figures,
)
from allotment.report._allocations import group_table, relatedness_tables
from allotment.report._section import section
from tests.records.made_up import a_header, a_record, an_outcome
from tests.report.expected import TWO_PAIRS, runs
from tests.report.suites import clusters_run

SPEC = replace(
    TWO_PAIRS, rows=(*TWO_PAIRS.rows, ReportRow(method="soft", label="Softmax", learnt=True))
)


def soft_run(seed: int) -> RunRecord:
    """Two pairs; tasks of a pair have nearly the same shares, and half of the components."""
    noise = np.random.default_rng(seed).normal(0, 0.01, (4, 4))
    shares = np.array([[0.5, 0.5, 0, 0]] * 2 + [[0, 0, 0.5, 0.5]] * 2) + np.abs(noise)
    shares = shares / shares.sum(axis=1, keepdims=True)
    header = a_header(method="soft", seed=seed, is_binary=False)
    return a_record(header, an_outcome(matrix=shares, probabilities=shares))


def many_tasks(seed: int) -> RunRecord:
    """Forty tasks in three families, whose shares are what their gates were."""
    run = clusters_run(seed)
    noise = np.random.default_rng(seed).uniform(0.9, 1.1, run.outcome.matrix.shape)
    shares: Floats = run.outcome.matrix * noise
    shares = shares / shares.sum(axis=1, keepdims=True)
    return replace(
        run,
        header=replace(run.header, is_binary=False),
        outcome=replace(run.outcome, matrix=shares, probabilities=shares),
    )


@fixture
def found() -> list[RunRecord]:
    return [soft_run(seed) for seed in range(3)]


def test_pairs_are_found_as_clusters_since_shares_are_never_equal(found: list[RunRecord]) -> None:
    table = result_table(found, SPEC)
    shown = dict(zip(table.head, table.rows[-1], strict=True))
    assert shown["Found the families, as clusters"] == "3 of 3"
    assert "One row a family" not in table.head
    assert "Softmax found the two pairs, as clusters, in 3 of 3 runs." in summary_text(found, SPEC)


def test_the_share_of_components_in_use_is_the_effective_one(found: list[RunRecord]) -> None:
    table = brief_table(found, SPEC)
    used = table.rows[-1][table.head.index("Components used")]
    assert 50 <= float(used.removesuffix(" %")) <= 60  # two of four, and the noise
    both = brief_table([*found, *runs("gumbel", [0.3, 0.4], recovered=2)], SPEC)
    assert "Gates open or components used" in both.head


def test_embeddings_are_compared_by_similarity_and_not_by_equality(found: list[RunRecord]) -> None:
    (table,) = relatedness_tables(section(found, SPEC))
    lines = {row[0]: row[1] for row in table.rows}
    assert "Distinct embeddings" not in lines
    assert lines["Adjusted Rand index with the families, as many clusters"] == "1.00 (1.00 to 1.00)"


def test_clusters_take_the_place_of_equal_rows() -> None:
    (row,) = section([many_tasks(0)], replace(SPEC, experiment="clusters", rows=())).rows
    table = group_table(row, row.runs[0])
    assert table.head == ("Cluster", "Tasks", "Number", "Components used")
    assert sorted(int(line[2]) for line in table.rows) == [10, 10, 20]


def test_tasks_that_use_nothing_are_not_called_alike() -> None:
    run = many_tasks(0)
    matrix = run.outcome.matrix.copy()
    matrix[:2] = 0
    (row,) = section([run], replace(SPEC, experiment="clusters", rows=())).rows
    shut = replace(run, outcome=replace(run.outcome, matrix=matrix))
    said = "tasks that use nothing stand together, which does not make them alike"
    assert said in group_table(row, shut).caption
    assert said not in group_table(row, run).caption


@mark.slow
def test_every_page_and_figure_can_be_made(tmp_path: Path, found: list[RunRecord]) -> None:
    every = [*found, *(many_tasks(seed) for seed in range(2))]
    for text in (html_page(every, [SPEC]), markdown_results(every, [SPEC])):
        assert "Gates open by layer" not in text
        assert "weight by layer and kind" in text
        assert "nan %" not in text and "nan (" not in text
    names = {path.name for path in write_figures(every, [SPEC], tmp_path)}
    assert {"two_pairs-soft-allocation.png", "clusters-gumbel-mds.png"} <= names
    assert len(embeddings_views(every, [SPEC])) == 2


def test_kept_runs_say_the_same(tmp_path: Path, found: list[RunRecord]) -> None:
    keep(found, tmp_path)
    assert result_table(read_kept(tmp_path), SPEC) == result_table(found, SPEC)
    assert summary_text(read_kept(tmp_path), SPEC) == summary_text(found, SPEC)
