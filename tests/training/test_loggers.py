"""What a training does, told to a logger."""

import torch
from pytest import approx, raises
from torch import nn

import allotment as al
from allotment.training import log_to


class Remembering:
    """Has the one method that loggers of Lightning have for numbers."""

    def __init__(self) -> None:
        self.logged: dict[int, dict[str, float]] = {}

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        assert all(type(value) is float for value in metrics.values())
        self.logged[step] = metrics


def network() -> al.MultiTaskNetwork:
    layer = al.ModularLayer([nn.Linear(4, 4), nn.Linear(4, 4)], al.GumbelMatrix(2, 2))
    return al.MultiTaskNetwork(None, [layer], {"size": nn.Linear(4, 1), "kind": nn.Linear(4, 3)})


def test_a_logger_gets_what_the_history_has() -> None:
    x = torch.randn(40, 4)
    size, kind = (x, x[:, 0]), (x, x[:, :3].argmax(dim=1))
    tasks = [al.Task("size", size, validation=size), al.Task("kind", kind, validation=kind)]
    logger = Remembering()
    settings = al.TrainingSettings(rounds=30, evaluate_every=20)
    log = log_to(logger, ["size", "kind"])
    history = al.fit(network(), tasks, settings, on_progress=log).history
    assert list(logger.logged) == [entry.round for entry in history]
    for entry in history:
        found = logger.logged[entry.round]
        assert [found["train_loss/size"], found["train_loss/kind"]] == approx(entry.losses)
        assert found["gates_open"] == entry.share_active
    checked = [at for at, found in logger.logged.items() if "validation_loss/size" in found]
    assert checked == [entry.round for entry in history if entry.validation is not None]
    assert "validation_accuracy/kind" in logger.logged[20]
    assert "validation_accuracy/size" not in logger.logged[20]  # a regression has none


def test_tasks_without_names_are_not_logged_under_wrong_ones() -> None:
    x = torch.randn(40, 4)
    tasks = [al.Task("size", (x, x[:, 0])), al.Task("kind", (x, x[:, :3].argmax(dim=1)))]
    log = log_to(Remembering(), ["size"])
    with raises(ValueError, match="zip"):
        al.fit(network(), tasks, al.TrainingSettings(rounds=10), on_progress=log)
