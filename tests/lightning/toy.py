"""A small network, tasks and a Trainer for the tests of `allotment.lightning`."""

from pathlib import Path
from typing import Any

import torch
from lightning import Trainer
from torch import nn

import allotment as al

SETTINGS = al.TrainingSettings(
    rounds=8,
    batch_size=8,
    optimization=al.Optimization(
        learning_rate=0.01, allocation_learning_rate=0.05, weight_decay=1e-3, clip_norm=1.0
    ),
    penalties=al.Penalties(budget=0.75, entropy_weight=0.1),
)


def network() -> al.MultiTaskNetwork:
    torch.manual_seed(3)
    components = [nn.Sequential(nn.Linear(6, 5), nn.Tanh()) for _ in range(3)]
    layer = al.ModularLayer(components, al.GumbelMatrix(3, 3, p_init=0.8))
    heads = {"a": nn.Linear(5, 1), "b": nn.Linear(5, 3), "c": nn.Linear(5, 1)}
    return al.MultiTaskNetwork(None, [layer], heads)


def tasks() -> list[al.Task]:
    """Returns two regressions and a classification, each with a validation split."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(60, 6, generator=generator)
    targets = {"a": x[:, 0], "b": x[:, :3].argmax(dim=1), "c": x[:, 1] - x[:, 0]}
    train, held_out = x[:40], x[40:]  # one array for all tasks
    return [
        al.Task(name, (train, y[:40]), validation=(held_out, y[40:]), test=(held_out, y[40:]))
        for name, y in targets.items()
    ]


def trainer(folder: Path, **options: Any) -> Trainer:
    chosen: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": -1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
        "num_sanity_val_steps": 0,
    }
    return Trainer(**chosen | options)
