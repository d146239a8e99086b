"""A training that may be killed, as `torchrun` starts it: ``killed.py FOLDER``.

It goes on from its last checkpoint, if there is one. Each process tells its id and its step.
"""

import logging
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning import Callback
from lightning.pytorch.callbacks import ModelCheckpoint

from allotment.lightning import MultiTaskData, MultiTaskModule, RunFolder
from tests.lightning.toy import SETTINGS, network, tasks, trainer

N_ROUNDS = 50


class Telling(Callback):
    """Writes which process this is, and how far it came, for whoever kills it."""

    def __init__(self, folder: Path) -> None:
        start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._file = folder / f"process-{start}-{os.environ.get('RANK', '0')}"

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._tell(0)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        self._tell(trainer.global_step)

    def _tell(self, step: int) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{os.getpid()} {step}")
        new.replace(self._file)


def main(folder: Path, n_processes: int = 2) -> None:
    """Trains, and leaves weights, a run's folder and checkpoints."""
    folder.mkdir(exist_ok=True)
    settings = replace(SETTINGS, rounds=N_ROUNDS, evaluate_every=10)
    module = MultiTaskModule(network(), tasks(), settings, seed=5)
    keep = ModelCheckpoint(folder, every_n_train_steps=7, save_last=True, save_top_k=0)
    # The last of the callbacks: what it tells is done by then.
    callbacks = [RunFolder(folder / "runs"), keep, Telling(folder)]
    run = trainer(
        folder,
        devices=n_processes,
        strategy="ddp" if n_processes > 1 else "auto",
        callbacks=callbacks,
        enable_checkpointing=True,
    )
    run.fit(module, MultiTaskData(tasks(), settings, seed=5), ckpt_path="last")
    if run.is_global_zero:
        torch.save(module.network.state_dict(), folder / "weights.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.set_default_dtype(torch.float64)
    main(Path(sys.argv[1]))
