from dataclasses import replace

import numpy as np
from pytest import mark

from allotment._schema import Floats
from allotment.paper._trends import trend_table, usage_trends
from tests.records.made_up import a_record, failed_run
from tests.report.suites import KINDS, alphabets_matrix, alphabets_run, clusters_run

AVERAGE, IDENTITY = KINDS.index("average pool"), KINDS.index("identity")


def changed(layer: int, kind: int, n_open: int) -> Floats:
    """Allocations after the paper's trends, with one gate of one layer open for some tasks."""
    gates = alphabets_matrix().reshape(20, 8, 7)
    gates[:, layer - 1, kind] = np.arange(20) < n_open
    return gates.reshape(20, 56)


def verdicts(*matrices: Floats) -> list[bool]:
    runs = [alphabets_run(seed, matrix=matrix) for seed, matrix in enumerate(matrices)]
    return [trend.holds for trend in usage_trends(runs)]


def test_allocations_after_the_paper_show_its_trends() -> None:
    trends = usage_trends([alphabets_run(seed) for seed in range(3)])
    assert [trend.holds for trend in trends] == [True, True, True]
    assert [(trend.n_holding, trend.n_runs) for trend in trends] == [(3, 3)] * 3


@mark.parametrize(
    ("matrix", "expected"),
    [
        (changed(8, AVERAGE, 1), [True, True, False]),  # used by one task
        (changed(8, IDENTITY, 19), [True, True, False]),  # not used by one task
        (changed(6, IDENTITY, 19), [True, True, True]),  # 95 % is almost always
        (changed(6, IDENTITY, 18), [True, False, True]),
        (np.ones((20, 56)), [False, False, False]),
        (np.zeros((20, 56)), [False, False, False]),
    ],
)
def test_each_trend_fails_on_its_own(matrix: Floats, expected: list[bool]) -> None:
    assert verdicts(matrix) == expected


def test_late_layers_that_drop_more_break_the_first_trend() -> None:
    gates = alphabets_matrix().reshape(20, 8, 7)
    assert verdicts(gates[:, ::-1].reshape(20, 56))[0] is False


def test_the_verdict_is_over_all_runs_and_each_run_is_counted() -> None:
    runs = [alphabets_run(0), alphabets_run(1, matrix=changed(8, AVERAGE, 1)), failed_run(2)]
    last = usage_trends(runs)[-1]
    assert (last.holds, last.n_holding, last.n_runs) == (False, 1, 2)
    assert "average pooling is open for 2 % of the tasks" in last.found  # 1 of 40
    assert "each of the rest for all of them" in last.found


def test_the_numbers_are_told() -> None:
    early, middle, _ = usage_trends([alphabets_run()])
    gates = alphabets_matrix().reshape(20, 8, 7)
    share = (1 - gates[:, :4]).sum() / (1 - gates).sum()
    assert f"and {100 * share:.0f} % of the shut gates are there" in early.found
    differences = np.abs(gates[:, None] - gates[None]).sum(axis=(0, 1, 3))  # [L]
    expected = 100 * differences[:4].sum() / differences.sum()
    assert early.found.startswith(f"{expected:.0f} % of the differences between tasks")
    assert "50 %, 50 %, 50 %" in middle.found


def test_other_networks_have_no_such_trends() -> None:
    assert usage_trends([a_record()]) == []
    assert usage_trends([clusters_run()]) == []
    assert usage_trends([]) == []
    soft = alphabets_run()
    assert usage_trends([replace(soft, header=replace(soft.header, is_binary=False))]) == []


def test_the_table_has_a_line_for_each_trend() -> None:
    table = trend_table("Gumbel-Matrix", [alphabets_run(seed) for seed in range(3)])
    assert table is not None
    assert [row[1:3] for row in table.rows] == [("holds", "3 of 3")] * 3
    assert "Gumbel-Matrix" in table.caption
    assert trend_table("Gumbel-Matrix", [clusters_run()]) is None
