"""A program that trains in several processes and writes the weights: ``ddp.py N CASE FILE``."""

import logging
import sys
import warnings
from pathlib import Path

import torch

from allotment.lightning import MultiTaskData, MultiTaskModule
from tests.lightning.cases import CASES
from tests.lightning.toy import trainer

if __name__ == "__main__":
    n, case, file = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.simplefilter("ignore")
    network, tasks, settings = CASES[case]()
    module = MultiTaskModule(network, tasks, settings, seed=5)
    data = MultiTaskData(tasks, settings, seed=5)
    run = trainer(file.parent, devices=n, strategy="ddp")
    run.fit(module, data)
    metrics = {name: float(value) for name, value in run.callback_metrics.items()}
    if run.is_global_zero:
        torch.save({"weights": module.network.state_dict(), "metrics": metrics}, file)
