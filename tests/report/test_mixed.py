"""Reports of runs whose tasks do not all classify: losses on the test splits, and by task."""

import json
from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose
from pytest import approx, mark

from allotment._schema import Evaluation
from allotment.analysis import error_curves, loss_by_task, measure, validation_loss_curves
from allotment.records import RunRecord
from allotment.report import ReportSpec, html_page
from tests.records.made_up import a_header, a_record, an_outcome, failed_run
from tests.report.expected import MNIST, TWO_PAIRS

ACCURACIES = np.array([0.5, np.nan, np.nan, np.nan])  # one task classifies


def mixed(seed: int, losses: list[float]) -> RunRecord:
    def seen(split: str, factor: float) -> Evaluation:
        return Evaluation(split=split, losses=factor * np.array(losses), accuracies=ACCURACIES)

    return a_record(
        a_header(measure="test_loss", seed=seed),
        an_outcome(test=seen("test", 1.0)),
        validation=((10, seen("validation", 3.0)), (20, seen("validation", 2.0))),
    )


RUNS = [mixed(0, [0.1, 0.2, 0.3, 0.4]), mixed(1, [0.3, 0.2, 0.1, 0.8])]


def test_the_measure_is_the_mean_test_loss() -> None:
    assert [measure(run) for run in RUNS] == [approx(0.25), approx(0.35)]
    untested = replace(RUNS[0], outcome=replace(RUNS[0].outcome, test=None))
    assert np.isnan(measure(untested)) and np.isnan(measure(failed_run()))


def test_losses_are_told_by_task() -> None:
    found = loss_by_task([*RUNS, failed_run(2)])
    assert {name: each.mean for name, each in found.items()} == approx(
        {"a1": 0.2, "a2": 0.2, "b1": 0.2, "b2": 0.6}
    )
    assert found["a1"].n == 2 and loss_by_task([failed_run()]) == {}


def test_validation_is_shown_as_a_loss() -> None:
    assert error_curves(RUNS).runs == ()
    curves = validation_loss_curves(RUNS)
    assert_allclose(curves.rounds, [10, 20])
    assert_allclose(curves.mean, [0.9, 0.6])


def test_the_page_has_losses_and_accuracies_by_task() -> None:
    spec = replace(TWO_PAIRS, measure="Test loss")
    page = html_page(RUNS, [spec])
    for said in ("Test loss, by task", "Test accuracy, %, by task", "Validation loss during"):
        assert said in page
    assert "Validation error" not in page and "over the last" not in page
    assert page == html_page(RUNS, [ReportSpec.from_record(spec.to_record())])
    assert "Test loss" in html_page(RUNS, [])  # also where nobody declared anything


@mark.parametrize("spec", [TWO_PAIRS, MNIST, replace(MNIST, pairs=(("gumbel", "gumbel"),))])
def test_a_spec_comes_back_from_json(spec: ReportSpec) -> None:
    record = spec.to_record()
    if spec.least == -np.inf:
        record["least"] = None  # as records hold it
    assert ReportSpec.from_record(json.loads(json.dumps(record))) == spec
