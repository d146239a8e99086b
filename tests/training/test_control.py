"""Metrics, patience, callbacks, and stopping early with what was learnt."""

import os
import signal

import numpy as np
import torch
from pytest import approx, mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork
from allotment.settings import TrainingSettings
from allotment.tasks import Task
from allotment.training import Progress, Run, fit, predict, train
from tests.training.toy import SETTINGS, a_network, classes


def a_classifier() -> MultiTaskNetwork:
    torch.manual_seed(0)
    return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 3), nn.Linear(4, 4)])


def share_right(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(1) == targets).float().mean())


def measured(**metrics: object) -> list[Task]:
    return [
        Task(t.name, t.train, t.validation, t.test, metrics=metrics)  # type: ignore[arg-type]
        for t in classes(3, 4)
    ]


def test_a_metric_sees_the_whole_split() -> None:
    seen: list[int] = []

    def count(outputs: Tensor, targets: Tensor) -> float:
        seen.append(len(targets))
        return share_right(outputs, targets)

    result = fit(a_classifier(), measured(right=count), SETTINGS)
    assert set(seen) == {30}
    assert result.test is not None and result.test.accuracies is not None
    np.testing.assert_allclose(result.test.metrics["right"], result.test.accuracies, rtol=1e-6)


def test_a_metric_of_one_task_is_not_the_others() -> None:
    first, second = classes(3, 4)
    with_metric = Task(
        first.name, first.train, first.validation, first.test, metrics={"right": share_right}
    )
    result = fit(a_classifier(), [with_metric, second], SETTINGS)
    assert result.test is not None
    assert np.isnan(result.test.metrics["right"]).tolist() == [False, True]


def test_metrics_of_several_runs_are_their_own() -> None:
    tasks = measured(right=share_right)
    *_, last = train([Run(a_classifier(), tasks, seed, SETTINGS) for seed in (0, 1)])
    assert last.outcomes is not None
    for outcome in last.outcomes:
        assert outcome.test is not None and outcome.test.accuracies is not None
        np.testing.assert_allclose(
            outcome.test.metrics["right"], outcome.test.accuracies, rtol=1e-6
        )


def test_a_metric_that_fails_is_named() -> None:
    with raises(ZeroDivisionError) as caught:
        fit(a_classifier(), measured(broken=lambda outputs, targets: 1 / 0), SETTINGS)
    assert caught.value.__notes__ == ["This is the metric 'broken' of task 'classes 0'."]


def falling() -> list[Task]:
    """Returns tasks with a metric that is lower at every check, in validation."""
    values = iter(np.repeat(np.arange(100.0, 0.0, -1.0), 2))  # two tasks are looked at each time
    return measured(score=lambda outputs, targets: next(values))


@mark.parametrize(("by", "best"), [("score", 10), ("-score", 40)])
def test_the_best_round_is_chosen_by_a_metric(by: str, best: int) -> None:
    settings = SETTINGS.changed(rounds=40, evaluate_every=10, keep_best=by)
    assert fit(a_classifier(), falling(), settings).best_round == best


def test_an_unknown_metric_to_choose_by_is_refused() -> None:
    settings = SETTINGS.changed(evaluate_every=10, keep_best="auc")
    with raises(ValueError, match=r"`keep_best` should be one of 'loss', 'accuracy', .*'auc'"):
        fit(a_classifier(), classes(3, 4), settings)


def test_patience_ends_a_training() -> None:
    settings = SETTINGS.changed(rounds=200, evaluate_every=10, keep_best="score", patience=3)
    result = fit(a_classifier(), falling(), settings)
    assert (result.best_round, result.rounds) == (10, 40)


def test_patience_needs_checks() -> None:
    with raises(ValueError, match=r"`patience` should come with `evaluate_every`"):
        TrainingSettings(patience=3)


def test_a_run_that_is_over_ends_as_it_would_alone() -> None:
    settings = SETTINGS.changed(rounds=200, evaluate_every=10, patience=2, learning_rate=0.05)
    *_, last = train([Run(a_classifier(), classes(3, 4), seed, settings) for seed in range(4)])
    assert last.outcomes is not None
    assert len({outcome.rounds for outcome in last.outcomes}) > 1  # else the test shows nothing
    by_length = sorted(enumerate(last.outcomes), key=lambda pair: pair[1].rounds)
    for seed, outcome in (by_length[0], by_length[-1]):
        *_, alone = train([Run(a_classifier(), classes(3, 4), seed, settings)])
        assert alone.outcomes is not None
        assert (alone.outcomes[0].rounds, alone.outcomes[0].best_round) == (
            outcome.rounds,
            outcome.best_round,
        )


def test_a_callback_sees_the_network_and_can_stop() -> None:
    rounds, losses = [], []
    x, y = classes(3, 4)[0].test.examples()

    def look(progress: Progress) -> None:
        rounds.append(progress.round)
        losses.append(float(nn.functional.cross_entropy(predict(progress.network(0), x, 0), y)))
        if progress.round == 30:
            progress.stop()

    network = a_classifier()
    settings = SETTINGS.changed(rounds=100, learning_rate=0.03)
    result = fit(network, classes(3, 4), settings, on_progress=look)
    assert rounds == [10, 20, 30]
    assert result.rounds == 30
    assert losses[2] < losses[0]
    after = float(nn.functional.cross_entropy(predict(network, x, 0), y))
    assert after == approx(losses[2], rel=1e-5)


def test_a_callback_that_fails_loses_nothing() -> None:
    def fail(progress: Progress) -> None:
        if progress.round == 20:
            raise RuntimeError("no disk")

    network, twenty = a_classifier(), a_classifier()
    with raises(RuntimeError, match="no disk") as caught:
        fit(network, classes(3, 4), SETTINGS.changed(rounds=50), on_progress=fail)
    assert caught.value.__notes__ == ["The network has the weights of round 20."]
    fit(twenty, classes(3, 4), SETTINGS.changed(rounds=20))
    for name, value in twenty.state_dict().items():
        assert_close(network.state_dict()[name], value, rtol=0, atol=0)


def test_ctrl_c_keeps_what_was_learnt() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.round == 20:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    network, twenty = a_classifier(), a_classifier()
    result = fit(network, classes(3, 4), SETTINGS.changed(rounds=500), on_progress=interrupt)
    assert result.rounds == 20
    assert signal.getsignal(signal.SIGINT) is before
    fit(twenty, classes(3, 4), SETTINGS.changed(rounds=20))
    for name, value in twenty.state_dict().items():
        assert_close(network.state_dict()[name], value, rtol=0, atol=0)


def test_a_task_without_a_split_leaves_the_others() -> None:
    first, second = classes(3, 4)
    tasks = [first, Task(second.name, second.train)]
    settings = SETTINGS.changed(rounds=20, evaluate_every=10)
    result = fit(a_classifier(), tasks, settings)
    for seen in (result.validation, result.test):
        assert seen is not None
        assert np.isnan(seen.losses).tolist() == [False, True]
    assert result.best_round is not None


def test_a_result_reads_as_a_table() -> None:
    result = fit(a_classifier(), measured(right=share_right), SETTINGS.changed(evaluate_every=10))
    lines = str(result).splitlines()
    assert lines[0].startswith("10 rounds, weights of round 10")
    head = lines[2].split("  ")
    assert [part.strip() for part in head if part.strip()] == [
        *("task", "training loss", "validation loss", "validation accuracy", "validation right"),
        *("test loss", "test accuracy", "test right", "uses"),
    ]
    assert lines[3].startswith("classes 0")
    assert "al.extract(network, 'classes 0')" in lines[-2]
    assert lines[-1].startswith("Advice: cannot tell. No comparison was made")


def test_a_stopped_training_says_so_and_has_its_last_losses() -> None:
    def stop(progress: Progress) -> None:
        if progress.round == 70:
            progress.stop()

    settings = SETTINGS.changed(rounds=40_000)  # a log entry every 140 rounds
    result = fit(a_classifier(), classes(3, 4), settings, on_progress=stop)
    assert result.history[-1].round == result.rounds == 70
    assert not result.was_interrupted
    assert str(result).startswith("70 of 40,000 rounds")


def test_a_metric_is_one_number() -> None:
    with raises(ValueError, match=r"A metric should be one number\. Found shape \[30\]") as caught:
        fit(a_classifier(), measured(each=lambda outputs, targets: outputs[:, 0]), SETTINGS)
    assert caught.value.__notes__ == ["This is the metric 'each' of task 'classes 0'."]
