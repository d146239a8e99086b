"""What is logged: losses and accuracies by task, open gates, and tasks that use nothing."""

from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger
from pytest import approx, mark, warns

import allotment as al
from allotment.lightning import AllocationLogger, MultiTaskData, MultiTaskModule

from .toy import SETTINGS, network, tasks, trainer

pytestmark = mark.filterwarnings("ignore::FutureWarning")


class Kept(CSVLogger):
    """Keeps what it is told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told: dict[str, Any] = {}

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        self.told |= metrics


def test_losses_and_accuracies_are_those_of_evaluate(tmp_path: Path) -> None:
    module = MultiTaskModule(network(), tasks(), SETTINGS)
    run = trainer(tmp_path)
    (found,) = run.test(module, MultiTaskData(tasks(), SETTINGS), verbose=False)
    expected = al.evaluate(module.network, tasks(), split="test")
    for index, task in enumerate(module.tasks):
        assert found[f"test_loss/{task.name}"] == approx(expected.losses[index], rel=1e-5)
    assert expected.accuracies is not None
    assert found["test_accuracy/b"] == approx(expected.accuracies[1])
    assert "test_accuracy/a" not in found
    assert found["test_loss"] == approx(expected.losses.mean(), rel=1e-5)


def test_open_gates_are_logged(tmp_path: Path) -> None:
    logger = Kept(tmp_path)
    callback = AllocationLogger(every=3, probabilities=True)
    module = MultiTaskModule(network(), tasks(), SETTINGS)
    run = trainer(tmp_path, logger=logger, callbacks=[callback], log_every_n_steps=1)
    run.fit(module, MultiTaskData(tasks(), SETTINGS))
    assert {"gates_open", "gates_open/a", "probability/c/2"} <= set(logger.told)
    assert {"train_loss/a", "validation_loss/b", "validation_accuracy/b"} <= set(logger.told)


def test_a_task_that_uses_nothing_is_told_once(tmp_path: Path) -> None:
    shut = network()
    p_init = [[0.8] * 3, [1e-4] * 3, [0.8] * 3]
    shut.modular_layers[0].allocation = al.GumbelMatrix(3, 3, p_init=p_init, keeps_one=False)
    module = MultiTaskModule(shut, tasks(), SETTINGS)
    run = trainer(tmp_path, callbacks=[AllocationLogger(every=5)])
    with warns(UserWarning, match="Task 'b' uses no component of .* layer 0 at step 5,") as told:
        run.fit(module, MultiTaskData(tasks(), SETTINGS))
    assert sum("uses no component" in str(each.message) for each in told) == 1
