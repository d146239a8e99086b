import numpy as np
from numpy.testing import assert_allclose
from pytest import raises

from allotment.analysis import usage_by_kind
from tests.records.made_up import a_header, a_record, an_outcome
from tests.report.suites import KINDS, alphabets_run


def test_usage_by_kind_by_hand() -> None:
    # Two layers: two convolutions and a pool, then one convolution.
    header = a_header(layer_sizes=(3, 1), component_kinds=("conv", "conv", "pool", "conv"))
    first = np.array([[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0], [0, 1, 1, 0]], dtype=float)
    records = [a_record(header, an_outcome(matrix=matrix)) for matrix in (first, np.zeros((4, 4)))]
    found = usage_by_kind(records)
    assert found.kinds == ("conv", "pool")
    assert_allclose(found.shares, [[4 / 16, 4 / 8], [2 / 8, np.nan]])
    # A gate open for two of four tasks differs in 4 of 6 pairs of them.
    assert_allclose(found.diversity, [(4 / 6 + 4 / 6 + 0) / 3 / 2, 4 / 6 / 2])


def test_kinds_stand_in_their_order_and_layers_below_each_other() -> None:
    record = alphabets_run()
    found = usage_by_kind([record])
    assert found.kinds == KINDS
    assert_allclose(found.shares, record.outcome.matrix.mean(axis=0).reshape(8, 7))


def test_shares_of_a_kind_add_up_and_tasks_differ_by_half_the_sum_of_differences() -> None:
    # Two tasks, one layer: shares (1/4, 1/4, 1/2) and (0, 3/4, 1/4).
    weights = np.array([[1.0, 1.0, 2.0], [0.0, 3.0, 1.0]])
    header = a_header(
        task_names=("a", "b"),
        families=(),
        layer_sizes=(3,),
        component_kinds=("conv", "conv", "pool"),
        is_binary=False,
    )
    found = usage_by_kind([a_record(header, an_outcome(matrix=weights, probabilities=weights))])
    assert_allclose(found.shares, [[(1 / 2 + 3 / 4) / 2, (1 / 2 + 1 / 4) / 2]])
    assert_allclose(found.diversity, [(1 / 4 + 1 / 2 + 1 / 4) / 2])


def test_one_task_differs_from_none() -> None:
    header = a_header(task_names=("a",), families=(), layer_sizes=(2,), component_kinds=("A", "B"))
    record = a_record(header, an_outcome(matrix=np.ones((1, 2)), probabilities=np.ones((1, 2))))
    assert usage_by_kind([record]).diversity.tolist() == [0.0]


def test_a_run_is_asked_for() -> None:
    with raises(ValueError, match=r"`records` should hold at least one run. Found none"):
        usage_by_kind([])
