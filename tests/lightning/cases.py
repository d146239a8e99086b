"""What is trained in one process and in two: a network, its tasks and settings, by name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import allotment as al
from allotment.allocation import ScoreFunctionMatrix

from .toy import SETTINGS, network, tasks

Case = tuple[nn.Module, list[al.Task], al.TrainingSettings]


def alternating() -> Case:
    """Returns a network of own layers; a step uses one of its three heads."""
    return network(), tasks(), replace(SETTINGS, evaluate_every=10)


def joint() -> Case:
    return network(), tasks(), replace(SETTINGS, schedule="joint")


def some_known() -> Case:
    """Returns tasks that share examples, of which each knows the label of some."""
    own = []
    for index, task in enumerate(tasks()):
        rows = torch.arange(40)[torch.arange(40) % 3 != index]
        own.append(al.Task(task.name, replace(task.train, rows=rows)))
    return network(), own, replace(SETTINGS, schedule="multi_label")


def observing() -> Case:
    """Returns gates that learn from the losses they are told, and dropout before the heads."""
    made = network()
    made.dropout = 0.2
    made.modular_layers[0].allocation = ScoreFunctionMatrix(3, 3, p_init=0.8)
    made.number_layers()
    return made, tasks(), SETTINGS


def modularized() -> Case:
    """Returns a model of others, with a part that no task has a use for."""
    torch.manual_seed(3)
    block = nn.TransformerEncoderLayer(6, 2, dim_feedforward=8, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(block, 2)
    body = nn.Sequential(nn.Linear(6, 12), nn.Unflatten(1, (2, 6)), encoder, nn.Flatten())
    widths = {"a": 1, "b": 3, "c": 1}
    heads = {name: nn.Linear(12, width) for name, width in widths.items()}
    made = al.modularize(body, {"2.layers.1.linear1": 2}, heads=heads)
    made.add_module("left_over", nn.Linear(2, 2))
    # A bias of keys has no gradient but rounding, which Adam would make a step of.
    optimization = al.Optimization(learning_rate=0.1, optimizer=torch.optim.SGD)
    return made, tasks(), replace(SETTINGS, optimization=optimization)


def streamed() -> Case:
    """Returns tasks with loaders, whose last batches are odd, or smaller than there are parts."""

    def loader(task: al.Task, size: int) -> Any:
        x, y = task.train.examples()
        return DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True)

    sizes = {"a": 8, "b": 13, "c": 9}
    own = [al.Task(t.name, loader(t, sizes[t.name]), n_outputs=t.n_outputs) for t in tasks()]
    return network(), own, SETTINGS


CASES: dict[str, Callable[[], Case]] = {
    case.__name__: case
    for case in (alternating, joint, some_known, observing, modularized, streamed)
}
