import numpy as np
from numpy.testing import assert_allclose
from pytest import approx, raises

from allotment.analysis import usage_by_kind, usage_by_layer
from tests.records.made_up import a_header, a_record, an_outcome
from tests.report.suites import KINDS, alphabets_run


def test_usage_by_layer() -> None:
    record = a_record(a_header(layer_sizes=(1, 3)))
    assert_allclose(usage_by_layer(record), [2 / 4, 4 / 12])


def test_usage_by_kind_by_hand() -> None:
    # Two layers: two convolutions and a pool, then one convolution.
    header = a_header(layer_sizes=(3, 1), component_names=("conv A", "conv B", "pool", "conv A"))
    first = np.array([[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0], [0, 1, 1, 0]], dtype=float)
    records = [a_record(header, an_outcome(matrix=matrix)) for matrix in (first, np.zeros((4, 4)))]
    found = usage_by_kind(records)
    assert found.kinds == ("conv", "pool")
    assert_allclose(found.shares, [[4 / 16, 4 / 8], [2 / 8, np.nan]])
    # A gate open for two of four tasks differs in 4 of 6 pairs of them.
    assert_allclose(found.diversity, [(4 / 6 + 4 / 6 + 0) / 3 / 2, 4 / 6 / 2])


def test_kinds_stand_in_their_order_and_layers_agree_with_usage_by_layer() -> None:
    record = alphabets_run()
    found = usage_by_kind([record])
    assert found.kinds == KINDS
    assert found.shares.mean(axis=1) == approx(usage_by_layer(record))


def test_one_task_differs_from_none() -> None:
    header = a_header(task_names=("a",), families=(), layer_sizes=(2,), component_names=("A", "B"))
    record = a_record(header, an_outcome(matrix=np.ones((1, 2)), probabilities=np.ones((1, 2))))
    assert usage_by_kind([record]).diversity.tolist() == [0.0]


def test_a_run_is_asked_for() -> None:
    with raises(ValueError, match=r"`records` should hold at least one run. Found none"):
        usage_by_kind([])
