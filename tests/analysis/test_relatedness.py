import math

import numpy as np
from pytest import approx, mark, raises

from allotment._schema import Floats
from allotment.analysis import relatedness
from allotment.analysis._measure import recovers, separates
from allotment.records import RunRecord
from tests.records.made_up import PAIRS, a_header, a_record, an_outcome, failed_run
from tests.report.suites import FAMILIES, alphabets_run, clusters_run

WRONG = PAIRS[[0, 2, 0, 2]]


def run_of(matrix: Floats, seed: int = 0, **header: object) -> RunRecord:
    return a_record(a_header(seed=seed, **header), an_outcome(matrix=matrix))


def test_what_runs_say_together_by_hand() -> None:
    # Two runs have the pairs, one has the wrong ones; wrong against right is (0 - 2/3) / (4/3).
    found = relatedness([run_of(PAIRS, 0), run_of(PAIRS, 1), run_of(WRONG, 2)])
    wrong = -0.5
    assert found.n_distinct.mean == 2
    assert found.n_clusters.mean == 2
    assert found.silhouette.mean == 1
    assert found.stability == approx((1 + 2 * wrong) / 3)
    assert [share.mean for share in found.shares] == approx([0.5, 0.5 - 1 / 12, 1 / 3, 0.25])
    assert found.known is not None
    assert found.known.agreement_at_known.mean == approx((2 + wrong) / 3)
    assert found.known.agreement_at_chosen.n == 3
    assert found.known.within.mean == approx(2 / 3)
    assert found.known.across.mean == approx((0 + 0 + 0.5) / 3)
    assert found.known.stability_at_known == approx((1 + 2 * wrong) / 3)
    assert [family.own_nearest.mean for family in found.known.families] == approx([2 / 3, 2 / 3])
    assert found.largest_share == 0.5
    assert found.by_chance.mean == approx((0.5 + 4 * np.sqrt(0.125) + 0.25) / 6)
    first, second = found.known.families
    assert (first.name, first.n_tasks, first.n_uniform) == ("pair a", 2, 2)
    assert second.n_distinct.mean == approx((1 + 1 + 2) / 3)


def test_families_that_are_nearer_come_first() -> None:
    found = relatedness([clusters_run(seed) for seed in range(3)])
    assert found.known is not None
    nearest = found.known.pairs[0]
    assert {nearest.first, nearest.second} == {"MNIST", "Fashion-MNIST"}
    means = [pair.similarity.mean for pair in found.known.pairs]
    assert means == sorted(means, reverse=True)
    assert [family.n_uniform for family in found.known.families] == [0, 3, 3]
    assert found.known.agreement_at_known.mean == 1.0
    assert found.known.across.mean < found.known.within.mean
    assert [pair.n_nearest for pair in found.known.pairs] == [3, 0, 0]
    assert nearest.similarity.mean > nearest.by_chance.mean
    cifar, mnist, _ = found.known.families
    assert cifar.own_nearest.mean == 1.0
    assert cifar.own_nearest_by_chance.mean < 0.9
    assert mnist.own_nearest_by_chance.mean == 1.0
    assert cifar.within.mean > cifar.within_by_chance.mean
    assert cifar.within_by_chance.mean == approx(0.53, abs=0.03)  # half of the gates are open
    assert max(cifar.p_values) < 0.05
    assert all(math.isnan(p) for p in mnist.p_values)
    assert found.budget == 0.5
    assert found.stability == 1.0


def test_the_nearest_pair_is_counted_in_every_run_and_ties_do_not_count() -> None:
    first, second, third = np.eye(3)
    near = np.stack([first, first, first + second, first + second, third, third])
    far = near[[0, 1, 4, 5, 2, 3]]
    names = tuple("abcdef")
    families = ("x", "x", "y", "y", "z", "z")

    def known(*matrices: Floats) -> list[tuple[str, str, int]]:
        runs = [
            run_of(each, seed, task_names=names, families=families, layer_sizes=(3,))
            for seed, each in enumerate(matrices)
        ]
        found = relatedness(runs).known
        assert found is not None
        return [(pair.first, pair.second, pair.n_nearest) for pair in found.pairs]

    assert sorted(known(near, near, far)) == [("x", "y", 2), ("x", "z", 1), ("y", "z", 0)]
    assert {n for _, _, n in known(np.ones((6, 3)))} == {0}


def test_permuting_tasks_permutes_everything() -> None:
    order = np.random.default_rng(0).permutation(40)
    record = clusters_run()
    header = a_header(
        task_names=tuple(record.header.task_names[task] for task in order),
        families=tuple(FAMILIES[task] for task in order),
        layer_sizes=record.header.layer_sizes,
        component_names=record.header.component_names,
    )
    before = relatedness([record])
    after = relatedness([a_record(header, an_outcome(matrix=record.outcome.matrix[order]))])
    assert [share.mean for share in after.shares] == [before.shares[task].mean for task in order]
    assert after.n_distinct.mean == before.n_distinct.mean
    assert after.silhouette.mean == approx(before.silhouette.mean)
    assert before.known is not None and after.known is not None
    assert after.known.within.mean == approx(before.known.within.mean)
    assert after.known.across.mean == approx(before.known.across.mean)
    assert {f.name: f.n_distinct.mean for f in after.known.families} == {
        f.name: f.n_distinct.mean for f in before.known.families
    }
    assert [p.similarity.mean for p in after.known.pairs] == approx(
        [p.similarity.mean for p in before.known.pairs]
    )


def test_without_families_and_with_one_run_less_is_known() -> None:
    found = relatedness([alphabets_run()])
    assert found.known is None
    assert found.budget is None
    assert math.isnan(found.stability)
    assert found.n_distinct.n == 1


def test_runs_that_share_everything_have_one_cluster_and_no_silhouette() -> None:
    found = relatedness([run_of(np.ones((4, 4)), seed) for seed in range(2)])
    assert found.n_clusters.mean == 1
    assert found.silhouette.n == 0
    assert found.stability == 1.0
    assert found.known is not None
    assert found.known.agreement_at_known.mean == 0.0


def test_failed_runs_are_left_out() -> None:
    assert relatedness([run_of(PAIRS), failed_run(1)]).n_distinct.n == 1


@mark.parametrize(
    ("records", "message"),
    [
        ([], "Found 0 finished runs of 0 suites"),
        ([failed_run()], "Found 0 finished runs of 0 suites"),
        ([run_of(PAIRS), alphabets_run()], "Found 2 finished runs of 2 suites"),
    ],
)
def test_runs_of_the_same_tasks_are_asked_for(records: list[RunRecord], message: str) -> None:
    with raises(ValueError, match=f"should be finished runs of the same tasks. {message}"):
        relatedness(records)


def test_clusters_may_be_the_families_where_rows_differ() -> None:
    record = clusters_run()
    assert separates(record) is True
    assert recovers(record) is False
    assert separates(run_of(WRONG)) is False
    assert separates(alphabets_run()) is None
