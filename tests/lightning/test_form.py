"""A network trains in stacked form, and is given back, saved and loaded in its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning import Callback
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint
from lightning.pytorch.strategies import ModelParallelStrategy
from pytest import mark, raises
from torch.testing import assert_close

import allotment as al
from allotment.lightning import MultiTaskData, MultiTaskModule

from .toy import SETTINGS, network, tasks, trainer

pytestmark = [
    mark.filterwarnings("ignore::FutureWarning"),
    mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    mark.filterwarnings("ignore:You're using the WeightAveraging callback with a model"),
]


class Look(Callback):
    """Keeps the shapes that are trained, and a copy of the network, after some steps."""

    def __init__(self, step: int = 5, *, fails: bool = False) -> None:
        self.step, self.fails = step, fails
        self.shapes: set[torch.Size] = set()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            self.shapes = {parameter.shape for parameter in pl_module.parameters()}
            self.copy = pl_module.network_now()
            if self.fails:
                raise RuntimeError("no more")


def trained(folder: Path, *callbacks: Any, file: Path | None = None, **options: Any) -> Any:
    """Returns a module after a training, or the part of it that is left."""
    settings = options.pop("settings", SETTINGS)
    module = MultiTaskModule(network(), tasks(), settings, seed=5)
    keeps = any(isinstance(callback, ModelCheckpoint) for callback in callbacks)
    run = trainer(folder, callbacks=list(callbacks), enable_checkpointing=keeps, **options)
    run.fit(module, MultiTaskData(tasks(), settings, seed=5), ckpt_path=file)
    return module


def keep(folder: Path) -> ModelCheckpoint:
    return ModelCheckpoint(folder, filename="{step}", every_n_train_steps=1, save_top_k=-1)


def assert_alike(found: torch.nn.Module, expected: torch.nn.Module) -> None:
    """Asserts that networks have the same names, shapes and numbers."""
    assert_close(found.state_dict(), expected.state_dict(), rtol=0, atol=0)


@mark.filterwarnings("ignore:The settings have")  # a limit ends a part of it
def test_components_are_trained_as_one_tensor_and_given_back(tmp_path: Path) -> None:
    look, made = Look(), network()
    components = list(made.modular_layers[0].components)
    module = MultiTaskModule(made, tasks(), SETTINGS, seed=5)
    run = trainer(tmp_path, callbacks=[look])
    run.fit(module, MultiTaskData(tasks(), SETTINGS, seed=5))
    assert {(3, 5, 6), (3, 3, 5)} <= look.shapes and (5, 6) not in look.shapes
    assert module.network is made
    assert list(made.modular_layers[0].components) == components
    assert made.state_dict().keys() == network().state_dict().keys()
    found = trained(tmp_path, max_steps=5).network
    assert_alike(look.copy, found)
    assert_close(al.extract(look.copy, "a")(torch.ones(1, 6)), found.eval()(torch.ones(1, 6), "a"))


def test_a_training_that_fails_gives_the_network_back(tmp_path: Path) -> None:
    made, look = network(), Look(fails=True)
    module = MultiTaskModule(made, tasks(), SETTINGS, seed=5)
    with raises(RuntimeError, match="no more"):
        trainer(tmp_path, callbacks=[look]).fit(module, MultiTaskData(tasks(), SETTINGS, seed=5))
    assert_alike(made, look.copy)


def test_checkpoints_have_the_weights_of_the_network_that_was_given(tmp_path: Path) -> None:
    look = Look()
    module = trained(tmp_path, keep(tmp_path), look)
    file = tmp_path / "step=5.ckpt"
    state = torch.load(file)["state_dict"]
    plain = network()
    plain.load_state_dict({name.removeprefix("network."): own for name, own in state.items()})
    assert_alike(plain, look.copy)
    parts: dict[str, Any] = {"network": network(), "tasks": tasks(), "settings": SETTINGS}
    assert_alike(MultiTaskModule.load_from_checkpoint(file, **parts).network, look.copy)
    data = MultiTaskData(tasks(), SETTINGS, seed=5)
    (found,) = trainer(tmp_path).test(module, data, ckpt_path=file, verbose=False)
    expected = al.evaluate(look.copy, tasks(), split="test").by_task()
    assert abs(found["test_loss/a"] - expected["a"]["loss"]) < 1e-5


class Whole(torch.optim.SGD):
    """Might look at whole parameters."""


def test_an_optimizer_that_looks_at_parameters_sees_those_of_the_network(tmp_path: Path) -> None:
    look = Look()
    settings = SETTINGS.changed(optimizer=Whole)
    found = trained(tmp_path, look, settings=settings)
    assert look.shapes == {parameter.shape for parameter in network().parameters()}
    stacked = trained(tmp_path, settings=SETTINGS.changed(optimizer=torch.optim.SGD))
    assert_close(found.network.state_dict(), stacked.network.state_dict())


def test_averages_of_weights_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    whole = trained(tmp_path, EMAWeightAveraging(decay=0.9), keep(tmp_path))
    resumed = trained(tmp_path, EMAWeightAveraging(decay=0.9), file=tmp_path / "step=7.ckpt")
    assert_alike(resumed.network, whole.network)
    assert not torch.equal(
        trained(tmp_path).network.state_dict()["heads.0.weight"],
        whole.network.state_dict()["heads.0.weight"],
    )


def test_a_divided_network_in_one_file_goes_on_whole(tmp_path: Path) -> None:
    settings = replace(SETTINGS, rounds=4)
    plain = trained(tmp_path, settings=settings).network  # before there is a group of processes
    strategy = ModelParallelStrategy(1, 1, save_distributed_checkpoint=False)
    trained(tmp_path, keep(tmp_path), settings=settings, strategy=strategy)
    torch.distributed.destroy_process_group()
    resumed = trained(tmp_path, file=tmp_path / "step=5.ckpt", settings=settings)
    assert_close(resumed.network.state_dict(), plain.state_dict())
    parts: dict[str, Any] = {"network": network(), "tasks": tasks(), "settings": settings}
    loaded = MultiTaskModule.load_from_checkpoint(tmp_path / "step=12.ckpt", **parts)
    assert_close(loaded.network.state_dict(), plain.state_dict())


def test_a_divided_network_is_tested_and_goes_on(tmp_path: Path) -> None:
    """Under FSDP2 it stays stacked, and loads what it saved."""
    settings = replace(SETTINGS, rounds=4)

    def divided() -> dict[str, Any]:
        return {"strategy": ModelParallelStrategy(data_parallel_size=1, tensor_parallel_size=1)}

    def tested(module: Any) -> Any:
        data = MultiTaskData(tasks(), settings, seed=5)
        return trainer(tmp_path, **divided()).test(module, data, verbose=False)

    plain = trained(tmp_path, settings=settings).network  # before there is a group of processes
    expected = al.evaluate(plain, tasks(), split="test").by_task()
    whole = trained(tmp_path, keep(tmp_path), settings=settings, **divided())
    found = tested(whole)
    file = tmp_path / "step=5.ckpt"
    resumed = trained(tmp_path, file=file, settings=settings, **divided())
    assert tested(resumed) == found
    with raises(ValueError, match=r"processes have it whole; .* Found ModelParallelStrategy\."):
        resumed.network_now()
    assert abs(found[0]["test_loss/a"] - expected["a"]["loss"]) < 1e-5
