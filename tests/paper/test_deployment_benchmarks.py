"""The benchmarks of deployment measure what they say, tried on small images."""

from copy import deepcopy
from pathlib import Path

import torch
from pytest import MonkeyPatch, approx, fixture, importorskip, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import GumbelMatrix
from allotment.modules import TaskNetwork
from allotment.paper import EXPERIMENTS
from benchmarks import budgets, deployed, growing
from benchmarks.deployed import Suite

DIGITS = EXPERIMENTS["digits"]


@fixture
def suite(monkeypatch: MonkeyPatch) -> Suite:
    monkeypatch.setattr(deployed, "BUDGETS", (1.0, 0.25))
    settings = DIGITS.training.changed(rounds=100, evaluate_every=None, budget_weight=3.0)
    return Suite(name="digits", title="Digits", experiment=DIGITS, seeds=(0, 1), settings=settings)


def test_each_budget_is_trained_once_and_measured(suite: Suite, tmp_path: Path) -> None:
    rows = budgets.measure(suite, repeats=2, folder=tmp_path)
    cases = [("count", 1.0), ("count", 0.25), ("flops", 0.25)]
    assert [(row.cost, row.budget) for row in rows] == 2 * cases
    assert [len(row.scores) for row in rows] == [2, 2, 2, 0, 0, 0]  # what is wide is not trained
    files = sorted(tmp_path.rglob("*.safetensors"))
    times = [path.stat().st_mtime_ns for path in files]
    again = budgets.measure(suite, repeats=2, folder=tmp_path)
    assert [path.stat().st_mtime_ns for path in files] == times
    assert [row.scores for row in again] == [row.scores for row in rows]
    for row in rows:
        assert len(row.milliseconds["64"]) == 2
        assert all(own <= row.full_flops for own in row.flops)
        assert all(0 < a <= b for a, b in zip(row.trunk_flops, row.sum_flops, strict=True))


def logits_of(network: TaskNetwork) -> list[Tensor]:
    """Returns the logits of each layer's gates, to be changed in place."""
    allocations = [layer.allocation for layer in network.modular_layers]
    return [own.logits.data for own in allocations if isinstance(own, GumbelMatrix)]


def test_full_network_has_every_component_of_the_trained_one(suite: Suite) -> None:
    network = suite.network(dict.fromkeys("ab", 10), seed=0).eval()
    x = torch.randn(3, 1, 8, 8)
    opened = deepcopy(network)
    for logits in logits_of(opened):
        logits[..., 0] = 9.0
    for merge in (False, True):
        assert_close(budgets.forms(network, merge=merge)["full"](x), opened(x, 0))


def test_flops_of_a_tasks_network_fall_with_its_gates(suite: Suite) -> None:
    network = suite.network(dict.fromkeys("ab", 10), seed=0).eval()
    for logits in logits_of(network):
        logits[..., 0] = torch.tensor([1.0, 1.0, -1.0, -1.0])
        logits[..., 1] = 0.0
    found = budgets.measure_one(network, suite.tasks()[0], repeats=1)
    head = 2 * 64 * 10
    assert found["flops"] - head == approx((found["full_flops"] - head) / 2)
    # All tasks use the same: the layers are computed once, and the heads each.
    assert found["trunk_flops"] == found["sum_flops"] - (found["flops"] - head)


def test_what_onnx_runtime_computes_is_the_network(suite: Suite) -> None:
    importorskip("onnxruntime")
    importorskip("onnxscript")
    network = suite.network(dict.fromkeys("ab", 10), seed=0).eval()
    x = torch.randn(5, 1, 8, 8)
    own = budgets.forms(network)["task 1"]
    (found,) = budgets.as_onnx(own, x[:2])(x)
    assert_close(torch.from_numpy(found), own(x))


@fixture
def growth(suite: Suite) -> growing.Growth:
    tasks = suite.tasks()
    return growing.Growth(suite=suite, old=tasks[:3], new=tasks[3], rounds=100)


def test_each_way_and_size_has_a_row(growth: growing.Growth, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "SIZES", (50,))
    rows = list(growing.measure(growth, [0]))
    assert len(rows) == 4
    assert {row.n_examples for row in rows} == {50}
    assert all(0 <= score <= 1 for row in rows for score in row.scores)


def test_a_few_examples_are_among_the_many(growth: growing.Growth) -> None:
    few, many = (set(growth.few(n, seed=3).train.rows.tolist()) for n in (10, 50))
    assert len(few) == 10
    assert few < many <= set(growth.new.train.rows.tolist())


def test_old_tasks_that_change_end_the_benchmark(
    growth: growing.Growth, monkeypatch: MonkeyPatch
) -> None:
    def spoiling(network: TaskNetwork, *rest: object, **options: object) -> None:
        with torch.no_grad():
            next(network.parameters()).add_(1.0)

    old = growth.suite.network(deployed.outputs_of(growth.old), seed=0).eval()
    monkeypatch.setattr(growing, "fit", spoiling)
    with raises(AssertionError, match="the same to the bit"):
        growing.added(growth, old, growth.few(10, 0), 0, None)
