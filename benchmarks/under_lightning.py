"""Measures a training under Lightning's Trainer beside a DDP loop that is written by hand.

Both have one process, the same network, optimizer and tasks, and batches from the same arrays: what
is measured is what Lightning and `allotment.lightning` add to a step. Other tasks' heads have no
part in a step: the loop lets DDP scan for them (`find_unused_parameters`), and under Lightning the
scan is measured beside the loss that reaches every parameter. Segments take turns in one process,
and what counts is processor time: one process waits for no other, and a busy machine adds little.
"""

import argparse
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from lightning import Callback, Trainer
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it runs as a script, from anywhere
import allotment as al
from allotment.lightning import MultiTaskData, MultiTaskModule
from benchmarks.contestants import Contestant
from benchmarks.measurement import show, speed_record, take_turns, write
from benchmarks.own_networks import MANY, NAMES, NETWORKS, ROUNDS_PER_TURN, made_up_tasks, own_loop

STEPS_PER_TURN = ROUNDS_PER_TURN * len(NAMES)


class Pausing(Callback):
    """Lets a training in a thread go on for ten rounds at a time."""

    def __init__(self) -> None:
        self.is_done, self.may_go_on = threading.Semaphore(0), threading.Semaphore(0)

    def on_train_batch_end(self, trainer: Trainer, *rest: Any) -> None:
        if trainer.global_step % STEPS_PER_TURN == 0:
            self.is_done.release()
            self.may_go_on.acquire()


def under_lightning(
    network: nn.Module, tasks: list[al.Task], batch_size: int, *, scans: bool
) -> Iterator[None]:
    """Trains under Lightning's Trainer; yields after ten rounds."""
    settings, pausing = al.TrainingSettings(rounds=MANY, batch_size=batch_size), Pausing()
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        strategy=DDPStrategy(find_unused_parameters=scans),
        max_epochs=-1,
        callbacks=[pausing],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module, data = MultiTaskModule(network, tasks, settings), MultiTaskData(tasks, settings)
    threading.Thread(target=trainer.fit, args=(module, data), daemon=True).start()
    while True:
        pausing.is_done.acquire()
        yield
        pausing.may_go_on.release()


def contestants(name: str) -> list[Contestant]:
    """Returns the loop by hand, and Lightning with and without a scan for what is unused."""
    make, shape, batch_size = NETWORKS[name]
    tasks = made_up_tasks(shape)

    def network() -> nn.Module:
        torch.manual_seed(0)
        return make()

    ways: dict[str, Iterator[Any]] = {
        "DDP loop by hand": own_loop(
            DistributedDataParallel(network(), find_unused_parameters=True),
            tasks,
            batch_size,
            torch.device("cpu"),
        ),
        "Lightning": under_lightning(network(), tasks, batch_size, scans=False),
        "Lightning, scanning": under_lightning(network(), tasks, batch_size, scans=True),
    }
    return [
        Contestant(label, 1, "float32", turns, STEPS_PER_TURN, MANY, clock=time.process_time)
        for label, turns in ways.items()
    ]


def prepare() -> None:
    """Makes a group of one process, and keeps Lightning quiet."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "0")
    torch.set_num_threads(1)  # threads of several trainings would wait beside each other
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.simplefilter("ignore")


def main() -> int:
    """Measures one network, prints its table, and writes its record if asked to."""
    parser = argparse.ArgumentParser(description="Measures Lightning beside a DDP loop by hand.")
    parser.add_argument("network", choices=[name.removeprefix("own ") for name in NETWORKS])
    parser.add_argument("--segments", type=int, default=9, metavar="N")
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long is a segment")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of it")
    options = parser.parse_args()
    prepare()
    device, ways = torch.device("cpu"), contestants(f"own {options.network}")
    timings = take_turns(ways, options.seconds, options.segments, device)
    title = f"Lightning, {options.network}, processor time"
    record = speed_record("under_lightning.py", title, timings)
    show(record)
    write(record, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
