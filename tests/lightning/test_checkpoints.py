"""A training that is taken up from a checkpoint of Lightning's goes on as if it never stopped."""

from dataclasses import replace
from pathlib import Path

import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from pytest import mark

from allotment.lightning import MultiTaskData, MultiTaskModule
from allotment.settings import DynamicWeightAverage

from .toy import SETTINGS, network, tasks, trainer

pytestmark = [
    mark.filterwarnings("ignore::FutureWarning"),
    mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
]


# A balancing remembers; the last checkpoint leaves nothing to do, and the Trainer should not wait.
@mark.parametrize(("schedule", "step"), [("alternating", 5), ("joint", 5), ("multi_label", 8)])
def test_a_training_goes_on_exactly(schedule: str, step: int, tmp_path: Path) -> None:
    balancing = DynamicWeightAverage(2)
    settings = replace(SETTINGS, schedule=schedule, loss_balancing=balancing)
    settings = settings.changed(lr_schedule="cosine")

    def fit(file: Path | None, **options: object) -> dict[str, torch.Tensor]:
        module = MultiTaskModule(network(), tasks(), settings, seed=5)
        data = MultiTaskData(tasks(), settings, seed=5)
        trainer(tmp_path, **options).fit(module, data, ckpt_path=file)
        return module.network.state_dict()

    keep = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    whole = fit(None, callbacks=[keep], enable_checkpointing=True)
    resumed = fit(tmp_path / f"step={step}.ckpt")
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())
