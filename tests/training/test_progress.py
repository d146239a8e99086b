"""What a training does, told to Lightning's loggers."""

import csv
from pathlib import Path

import pytest

pytest.importorskip("lightning", reason="lightning is not installed here")
import torch
from lightning.pytorch.loggers import CSVLogger
from pytest import approx, raises
from torch import nn

import allotment as al
from allotment.training import log_to


def network() -> al.MultiTaskNetwork:
    layer = al.ModularLayer([nn.Linear(4, 4), nn.Linear(4, 4)], al.GumbelMatrix(2, 2))
    return al.MultiTaskNetwork(None, [layer], {"size": nn.Linear(4, 1), "kind": nn.Linear(4, 3)})


def rows_of(logger: CSVLogger) -> dict[int, dict[str, float]]:
    """Returns what a logger has written, by step; what it left empty is left out."""
    logger.finalize("success")
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = [{name: float(v) for name, v in row.items() if v} for row in csv.DictReader(file)]
    return {int(row.pop("step")): row for row in rows}


def test_a_logger_gets_what_the_history_has(tmp_path: Path) -> None:
    x = torch.randn(40, 4)
    size, kind = (x, x[:, 0]), (x, x[:, :3].argmax(dim=1))
    metrics = {"spread": lambda outputs, targets: outputs.std()}
    tasks = [
        al.Task("size", size, validation=size, metrics=metrics),
        al.Task("kind", kind, validation=kind),
    ]
    logger = CSVLogger(tmp_path)
    settings = al.TrainingSettings(rounds=30, evaluate_every=20)
    log = log_to(logger, ["size", "kind"])
    history = al.fit(network(), tasks, settings, on_progress=log).history
    logged = rows_of(logger)
    assert list(logged) == [entry.round for entry in history]
    for entry in history:
        found = logged[entry.round]
        assert [found["train_loss/size"], found["train_loss/kind"]] == approx(entry.losses)
        assert found["gates_open"] == entry.share_active
    checked = [at for at, found in logged.items() if "validation_loss/size" in found]
    assert checked == [entry.round for entry in history if entry.validation is not None]
    assert "validation_accuracy/kind" in logged[20]
    assert "validation_accuracy/size" not in logged[20]  # a regression has none
    assert history[1].validation is not None
    assert logged[20]["validation_spread/size"] == history[1].validation.metrics["spread"][0]
    assert "validation_spread/kind" not in logged[20]  # a metric of the other task


def test_tasks_without_names_are_not_logged_under_wrong_ones(tmp_path: Path) -> None:
    x = torch.randn(40, 4)
    tasks = [al.Task("size", (x, x[:, 0])), al.Task("kind", (x, x[:, :3].argmax(dim=1)))]
    log = log_to(CSVLogger(tmp_path), ["size"])
    with raises(ValueError, match="zip"):
        al.fit(network(), tasks, al.TrainingSettings(rounds=10), on_progress=log)
