"""Metrics of torchmetrics as the metrics of tasks."""

import pytest

pytest.importorskip("torchmetrics", reason="torchmetrics is not installed here")
import numpy as np
import torch
from pytest import approx, mark, raises
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torchmetrics import Accuracy, MeanAbsoluteError, Metric, MetricCollection
from torchmetrics.classification import BinaryAUROC, MulticlassAccuracy, MulticlassAUROC

from allotment.allocation import SharedBottom
from allotment.modules import MultiTaskNetwork
from allotment.tasks import Task
from allotment.training import FitResult, Run, evaluate, fit, predict, train
from tests.training.toy import N_INPUTS, SETTINGS, a_network

X = torch.randn(90, N_INPUTS, generator=torch.Generator().manual_seed(0))
TRAIN, VALIDATION, TEST = torch.arange(90).split(30)


def a_task(name: str, y: Tensor, metrics: dict[str, Metric], **options: object) -> Task:
    train, validation, test = ((X[rows], y[rows]) for rows in (TRAIN, VALIDATION, TEST))
    return Task(name, train, validation, test, metrics=metrics, **options)  # type: ignore[arg-type]


def logit_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return binary_cross_entropy_with_logits(outputs.squeeze(1), targets.float())


def three_tasks() -> list[Task]:
    """Returns a logit, three classes and a number, each with a metric of its own."""
    return [
        a_task("sign", (X[:, 0] > 0).long(), {"auc": BinaryAUROC()}, n_outputs=1, loss=logit_loss),
        a_task("kind", X[:, :3].argmax(1), {"right": MulticlassAccuracy(3, average="micro")}),
        a_task("size", X[:, 1] + X[:, 2], {"mae": MeanAbsoluteError()}),
    ]


def a_network_of_three() -> MultiTaskNetwork:
    torch.manual_seed(0)
    heads = {"sign": nn.Linear(4, 1), "kind": nn.Linear(4, 3), "size": nn.Linear(4, 1)}
    return a_network(SharedBottom(3, 2), heads)


def auc_by_hand(scores: Tensor, labels: Tensor) -> float:
    """Returns how often an example of class 1 has a higher score than one of class 0."""
    apart = scores[labels == 1].unsqueeze(1) - scores[labels == 0]
    return float((apart > 0).float().mean())


def test_each_task_has_its_metric_of_the_whole_split() -> None:
    network, tasks = a_network_of_three(), three_tasks()
    result = fit(network, tasks, SETTINGS.changed(rounds=30))
    assert result.test is not None and result.test.accuracies is not None
    found = result.test.metrics
    y = {task.name: task.test.targets for task in tasks}
    said = {name: predict(network, X[TEST], name) for name in y}
    assert found["auc"][0] == approx(auc_by_hand(said["sign"].squeeze(1), y["sign"]))
    assert found["right"][1] == approx(result.test.accuracies[1])
    assert found["mae"][2] == approx(float((said["size"].squeeze(1) - y["size"]).abs().mean()))
    for name, place in (("auc", 0), ("right", 1), ("mae", 2)):
        others = np.delete(found[name], place)
        assert np.isnan(others).all()


def test_metrics_of_several_runs_do_not_mix() -> None:
    def runs() -> list[Run]:
        return [Run(a_network_of_three(), three_tasks(), seed, SETTINGS) for seed in (0, 1)]

    *_, together = train(runs())
    assert together.outcomes is not None
    for outcome, run in zip(together.outcomes, runs(), strict=True):
        *_, alone = train([run])
        assert alone.outcomes is not None
        assert outcome.test is not None and alone.outcomes[0].test is not None
        for name, values in outcome.test.metrics.items():
            np.testing.assert_allclose(values, alone.outcomes[0].test.metrics[name], atol=1e-5)


def kept_by(keep_best: str, n_rounds: int = 60) -> FitResult:
    settings = SETTINGS.changed(
        rounds=n_rounds, evaluate_every=10, keep_best=keep_best, learning_rate=0.05
    )
    return fit(a_network_of_three(), three_tasks(), settings)


@mark.parametrize(("by", "sign"), [("auc", 1), ("right", 1), ("-mae", -1), ("mae", 1)])
def test_the_best_round_is_chosen_by_a_metric_of_torchmetrics(by: str, sign: int) -> None:
    result = kept_by(by)
    name = by.removeprefix("-")
    checks = [(entry.round, entry.validation) for entry in result.history]
    values = {at: sign * np.nanmean(seen.metrics[name]) for at, seen in checks if seen}
    assert result.best_round == max(values, key=lambda at: values[at])  # the first of equal ones
    assert result.validation is not None
    kept = sign * np.nanmean(result.validation.metrics[name])
    assert kept == approx(values[result.best_round])


def test_classes_have_metrics_of_several_classes() -> None:
    metrics = {"auc": MulticlassAUROC(2), "right": Accuracy("multiclass", num_classes=2)}
    task = a_task("sign", (X[:, 0] > 0).long(), metrics)
    network = a_network(SharedBottom(1, 2), {"sign": nn.Linear(4, 2)})
    result = fit(network, [task], SETTINGS.changed(rounds=30))
    scores = predict(network, X[TEST], "sign").softmax(1)[:, 1]
    assert result.test is not None
    assert result.test.metrics["auc"][0] == approx(auc_by_hand(scores, task.test.targets))


def test_logits_may_have_targets_that_are_numbers() -> None:
    y = (X[:, :1] > 0).float()  # [N, 1], as the loss takes them
    loss = binary_cross_entropy_with_logits
    task = a_task("sign", y, {"auc": BinaryAUROC()}, loss=loss)
    network = a_network(SharedBottom(1, 2), {"sign": nn.Linear(4, 1)})
    result = fit(network, [task], SETTINGS)
    scores = predict(network, X[TEST], "sign")
    assert result.test is not None
    assert result.test.metrics["auc"][0] == approx(auc_by_hand(scores[:, 0], y[TEST, 0]))


def test_a_metric_of_another_number_of_classes_is_named() -> None:
    task = a_task("kind", X[:, :3].argmax(1), {"right": MulticlassAccuracy(5)})
    with raises(ValueError, match="number of classes") as caught:
        fit(a_network(SharedBottom(1, 2), {"kind": nn.Linear(4, 3)}), [task], SETTINGS)
    assert caught.value.__notes__ == ["This is the metric 'right' of task 'kind'."]


def test_a_collection_of_metrics_is_refused() -> None:
    several = MetricCollection({"mae": MeanAbsoluteError()})
    task = a_task("size", X[:, 1], {"both": several})  # type: ignore[dict-item]
    with raises(ValueError, match=r"A metric should be one number\. Found several: mae"):
        fit(a_network(SharedBottom(1, 2), {"size": nn.Linear(4, 1)}), [task], SETTINGS)


@mark.parametrize("evaluated", [True, False])
def test_what_fails_inside_a_metric_is_told_with_its_name_and_task(evaluated: bool) -> None:
    task = a_task("kind", (X[:, 0] > 0).long(), {"auc": BinaryAUROC()})  # two logits, not one
    network = a_network(SharedBottom(1, 2), {"kind": nn.Linear(4, 2)})
    with raises(Exception) as caught:  # whatever torchmetrics raises
        evaluate(network, [task]) if evaluated else fit(network, [task], SETTINGS)
    assert "This is the metric 'auc' of task 'kind'." in caught.value.__notes__
