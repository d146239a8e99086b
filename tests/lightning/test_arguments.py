"""Bad arguments are answered in sentences, and the nearest good ones are taken."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from pathlib import Path
from typing import Any

import torch
from lightning import Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.demos.boring_classes import BoringModel
from pytest import MonkeyPatch, mark, raises, warns

from allotment.lightning import AllocationLogger, MultiTaskData, MultiTaskModule
from allotment.lightning._batch import Process, part_of
from allotment.settings import LossBalancing, UncertaintyWeighting

from .cases import CASES
from .toy import SETTINGS, network, tasks, trainer

pytestmark = mark.filterwarnings("ignore::FutureWarning")


class ByGradients(LossBalancing):
    """Needs the gradients of all tasks."""

    needs_gradients = True


def refused(name: str) -> AbstractContextManager[Any]:
    return raises(ValueError, match=f"Under Lightning, `{name}` should be .* Found")


@mark.parametrize(
    ("changes", "expectation"),
    [
        ({"ema_decay": 0.9}, refused("ema_decay")),
        ({"ema_decay": 0.0}, does_not_raise()),
        ({"mixed_precision": "tf32"}, refused("mixed_precision")),
        ({"accumulate": 2}, refused("accumulate")),
        ({"compile": True}, refused("compile")),
        ({"allocation_held_out": 0.5}, refused("allocation_held_out")),
        ({"shift": 1.0}, does_not_raise()),
        ({"schedule": "joint", "loss_balancing": ByGradients()}, refused("loss_balancing")),
        ({"loss_balancing": UncertaintyWeighting()}, does_not_raise()),
        ({"evaluate_every": 10, "patience": 2}, refused("patience")),
        ({"evaluate_every": 10}, does_not_raise()),
    ],
)
def test_settings_for_fit_alone_are_refused(
    changes: dict[str, Any], expectation: AbstractContextManager[Any]
) -> None:
    with expectation:
        MultiTaskModule(network(), tasks(), SETTINGS.changed(**changes))


def test_batches_that_stream_are_augmented_by_their_dataset() -> None:
    made, settings = CASES["streamed, joint"](), SETTINGS.changed(shift=1.0)
    with refused("augmentation"):
        MultiTaskModule(made.network, made.tasks, settings)


def test_tasks_are_those_of_the_network() -> None:
    with raises(ValueError, match=r"the network's tasks\. Found tasks \['a', 'b'\] for"):
        MultiTaskModule(network(), tasks()[:2])
    with raises(TypeError, match=r"`tasks` should be a list of Task. Found a list of str"):
        MultiTaskData(["a"])  # type: ignore[list-item]


def test_data_and_module_belong_together(tmp_path: Path) -> None:
    module, data = MultiTaskModule(network(), tasks(), SETTINGS), MultiTaskData(tasks())
    with raises(ValueError, match=r"those of the module. Found others in `rounds`, `batch_size`, "):
        trainer(tmp_path).fit(module, data)
    with raises(ValueError, match=r"`seed` should be that of the module, 0. Found 1"):
        trainer(tmp_path).fit(module, MultiTaskData(tasks(), SETTINGS, seed=1))
    with raises(ValueError, match=r"should be set up by a Trainer. Found none"):
        MultiTaskData(tasks(), SETTINGS).setup("fit")
    with raises(TypeError, match=r"should train a MultiTaskModule. Found a BoringModel"):
        trainer(tmp_path).fit(BoringModel(), data)
    with raises(TypeError, match=r"AllocationLogger should have a MultiTaskModule"):
        trainer(tmp_path, callbacks=[AllocationLogger()]).fit(BoringModel())


def test_processes_of_torchrun_are_one_training(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    module, data = MultiTaskModule(network(), tasks(), SETTINGS), MultiTaskData(tasks(), SETTINGS)
    with raises(ValueError, match=r"that torchrun started, 2. Found 1"):
        trainer(tmp_path).fit(module, data)


@mark.parametrize(
    ("options", "expectation"),
    [
        ({"max_epochs": -1}, does_not_raise()),
        ({"max_steps": 90}, does_not_raise()),
        ({"max_steps": 89}, warns(UserWarning, match="90 steps.*after 89 .*`max_steps = 89`")),
        ({"max_epochs": 2}, warns(UserWarning, match="90 steps.*after 60 .*`max_epochs = 2`")),
        ({"fast_dev_run": True}, does_not_raise()),
    ],
)
def test_a_training_that_a_limit_ends_early_says_so(
    options: dict[str, Any], expectation: AbstractContextManager[object], tmp_path: Path
) -> None:
    settings = SETTINGS.changed(rounds=30, evaluate_every=10)  # of three tasks; epochs of ten
    module, data = MultiTaskModule(network(), tasks(), settings), MultiTaskData(tasks(), settings)
    with expectation:
        trainer(tmp_path, **options).fit(module, data)


class Stopping(Callback):
    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        trainer.should_stop = True


def test_a_callback_may_end_a_training_early(tmp_path: Path) -> None:
    module = MultiTaskModule(network(), tasks(), SETTINGS)
    run = trainer(tmp_path, callbacks=[Stopping()])
    run.fit(module, MultiTaskData(tasks(), SETTINGS))
    assert module._n_done < module.n_steps


def test_a_batch_divides_among_processes(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    settings = SETTINGS.changed(batch_size=9)
    module, data = MultiTaskModule(network(), tasks(), settings), MultiTaskData(tasks(), settings)
    monkeypatch.setattr(Trainer, "world_size", 2)
    with raises(ValueError, match=r"`batch_size` should be a multiple of .* Found 9 for 2"):
        trainer(tmp_path).fit(module, data)


@mark.parametrize(("every", "error"), [(0, ValueError), (0.5, TypeError)])
def test_steps_between_entries_are_whole(every: Any, error: type[Exception]) -> None:
    with raises(error, match=r"`every` should be"):
        AllocationLogger(every)


@mark.parametrize("total", [1, 2, 5, 8])
def test_parts_make_up_a_batch(total: int) -> None:
    x = torch.arange(float(total))
    parts = [part_of(0, x, x, Process(rank, 3)) for rank in range(3)]
    mean = sum(float(part.weight * part.targets.mean()) for part in parts) / 3
    assert abs(mean - float(x.mean())) < 1e-6
