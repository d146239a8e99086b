"""What is logged: losses and accuracies by task, open gates, and tasks that use nothing."""

from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger
from pytest import approx, importorskip, mark, warns

import allotment as al
from allotment.lightning import AllocationLogger, MultiTaskData, MultiTaskModule

from .toy import SETTINGS, network, tasks, trainer

pytestmark = mark.filterwarnings("ignore::FutureWarning")


class Kept(CSVLogger):
    """Keeps what it is told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told: dict[str, Any] = {}
        self.all: dict[str, list[Any]] = {}

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        self.told |= metrics
        for name, value in metrics.items():
            self.all.setdefault(name, []).append(value)


def test_what_is_held_out_gives_the_numbers_of_evaluate(tmp_path: Path) -> None:
    a, b, c = tasks()
    own = [
        replace(a, metrics={"largest": lambda outputs, _: outputs.max(), "mae": mean_error()}),
        replace(b, metrics={"largest": lambda outputs, _: outputs.max()}),
        replace(c, test=None),
    ]
    module = MultiTaskModule(network(), own, SETTINGS)
    (found,) = trainer(tmp_path).test(module, MultiTaskData(own, SETTINGS), verbose=False)
    expected = al.evaluate(module.network, own, split="test").by_task()
    assert expected["a"].keys() == {"loss", "largest", "mae"}
    flat = {f"test_{what}/{n}": v for n, values in expected.items() for what, v in values.items()}
    means = {"test_loss", "test_accuracy", "test_largest", "test_mae"}
    assert found.keys() == flat.keys() | means
    assert {name: found[name] for name in flat} == approx(flat, rel=1e-5)
    losses = [found["test_loss/a"], found["test_loss/b"]]
    assert found["test_loss"] == approx(sum(losses) / 2)


def mean_error() -> Any:
    return importorskip("torchmetrics").MeanAbsoluteError()


def test_a_loss_that_is_no_number_is_logged(tmp_path: Path) -> None:
    own = [replace(task, loss=lambda outputs, _: outputs.mean() * nan) for task in tasks()]
    module = MultiTaskModule(network(), own, SETTINGS)
    (found,) = trainer(tmp_path).test(module, MultiTaskData(own, SETTINGS), verbose=False)
    assert isnan(found["test_loss"]) and isnan(found["test_loss/a"])


def test_open_gates_and_a_missed_budget_are_told(tmp_path: Path) -> None:
    logger = Kept(tmp_path)
    callback = AllocationLogger(every=3, probabilities=True)
    module = MultiTaskModule(network(), tasks(), SETTINGS)
    run = trainer(tmp_path, logger=logger, callbacks=[callback], log_every_n_steps=1)
    with warns(UserWarning, match=r"at most the budget. Found 1 for 'a', above 0.75; 1 for"):
        run.fit(module, MultiTaskData(tasks(), SETTINGS))
    assert {"gates_open", "gates_open/a", "probability/c/2"} <= set(logger.told)
    assert {"train_loss/a", "validation_loss/b", "validation_accuracy/b"} <= set(logger.told)
    expected = module.network.probabilities("a").mean().item() - 0.75
    assert logger.told["over_budget/a"] == approx(max(expected, 0.0), abs=1e-6)


class WithImages(Kept):
    """Takes pictures, as Lightning's logger for Weights & Biases does."""

    def log_image(self, key: str, images: list[Any], step: int | None = None) -> None:
        self.told[key] = images


class Writer:
    """Takes pictures, as TensorBoard's writer does."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], Any] = {}

    def add_image(self, tag: str, image: Any, step: int, dataformats: str) -> None:
        self.told[tag, dataformats] = image


class WithWriter(Kept):
    """Holds a writer, as Lightning's logger for TensorBoard does."""

    @property
    def experiment(self) -> Any:
        self.writer = getattr(self, "writer", Writer())
        return self.writer

    def save(self) -> None:
        """Saves nothing; there is no file."""


def test_loggers_that_take_pictures_get_the_map(tmp_path: Path) -> None:
    with_images, with_writer = WithImages(tmp_path), WithWriter(tmp_path)
    module = MultiTaskModule(network(), tasks(), SETTINGS.changed(budget=1.0))
    loggers = [Kept(tmp_path), with_images, with_writer]
    callbacks = [AllocationLogger(every=24)]
    run = trainer(tmp_path, logger=loggers, callbacks=callbacks, log_every_n_steps=24)
    run.fit(module, MultiTaskData(tasks(), module.settings))
    expected = (255 * (1 - module.network.probabilities())).round()
    (picture,) = with_images.told["allocation"]
    assert picture.shape == (24, 24) and picture.dtype == "uint8"  # 3 tasks, 3 components
    assert (picture[4::8, 4::8] == expected.detach().numpy()).all()
    assert (with_writer.writer.told["allocation", "HW"] == picture).all()


def test_a_budget_that_holds_is_not_warned_of(tmp_path: Path) -> None:
    settings = SETTINGS.changed(budget=0.75, budget_scope="global")
    made = network()
    half_open = [[0.9, 0.9, 0.1]] * 3
    made.modular_layers[0].allocation = al.GumbelMatrix(3, 3, p_init=half_open)
    logger = Kept(tmp_path)
    run = trainer(tmp_path, logger=logger, callbacks=[AllocationLogger(1)], log_every_n_steps=1)
    run.fit(MultiTaskModule(made, tasks(), settings), MultiTaskData(tasks(), settings))
    assert logger.told["over_budget"] == 0.0


def test_logged_losses_are_means_since_the_last_entry(tmp_path: Path) -> None:
    told = {}
    for every in (1, 24):
        logger = Kept(tmp_path)
        module = MultiTaskModule(network(), tasks(), SETTINGS)
        run = trainer(tmp_path, logger=logger, log_every_n_steps=every)
        run.fit(module, MultiTaskData(tasks(), SETTINGS))
        told[every] = list(dict.fromkeys(logger.all["train_loss/a"]))  # it repeats the last one
    assert len(told[1]) == SETTINGS.rounds
    assert told[24] == [approx(sum(told[1]) / len(told[1]), rel=1e-5)]


def test_a_task_that_uses_nothing_is_told_once(tmp_path: Path) -> None:
    shut = network()
    p_init = [[0.8] * 3, [1e-4] * 3, [0.8] * 3]
    shut.modular_layers[0].allocation = al.GumbelMatrix(3, 3, p_init=p_init, keeps_one=False)
    free = SETTINGS.changed(budget=None)
    run = trainer(tmp_path, callbacks=[AllocationLogger(every=5)])
    with warns(UserWarning, match="Task 'b' uses no component of .* layer 0 at step 5,") as told:
        run.fit(MultiTaskModule(shut, tasks(), free), MultiTaskData(tasks(), free))
    assert sum("uses no component" in str(each.message) for each in told) == 1
