"""What is trained in one process and in two: a network, its tasks and settings, by name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import allotment as al
from allotment.allocation import ScoreFunctionByExample, ScoreFunctionMatrix
from allotment.modules import as_network
from allotment.settings import UncertaintyWeighting

from .toy import SETTINGS, network, tasks

N_STEPS = 50


class Case(NamedTuple):
    """What is trained."""

    network: nn.Module
    tasks: list[al.Task]
    settings: al.TrainingSettings


def own(schedule: str) -> Case:
    """Returns a network of own layers; in turn, tasks are drawn unequally."""
    made = tasks()
    if schedule == "alternating":
        made = [replace(task, sampling=n + 1) for n, task in enumerate(made)]
    return Case(with_rest(network()), made, lasting(SETTINGS, schedule))


def with_rest(made: nn.Module) -> nn.Module:
    """Returns a network with a part that no task has a use for."""
    made.add_module("left_over", nn.Linear(2, 2))
    return made


def modularized(schedule: str) -> Case:
    """Returns a model of others."""
    torch.manual_seed(3)
    block = nn.TransformerEncoderLayer(6, 2, dim_feedforward=8, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(block, 2)
    body = nn.Sequential(nn.Linear(6, 12), nn.Unflatten(1, (2, 6)), encoder, nn.Flatten())
    widths = {"a": 1, "b": 3, "c": 1}
    heads = {name: nn.Linear(12, width) for name, width in widths.items()}
    made = with_rest(al.modularize(body, {"2.layers.1.linear1": 2}, heads=heads))
    # A bias of keys has no gradient but rounding, which Adam would make a step of.
    optimization = al.Optimization(learning_rate=0.1, optimizer=torch.optim.SGD)
    return Case(made, tasks(), lasting(replace(SETTINGS, optimization=optimization), schedule))


def streamed(schedule: str) -> Case:
    """Returns tasks with loaders, whose last batches are odd, or smaller than there are parts."""

    def loader(task: al.Task, size: int) -> Any:
        x, y = task.train.examples()
        return DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True)

    sizes = {"a": 8, "b": 13, "c": 9}
    made = [al.Task(t.name, loader(t, sizes[t.name]), n_outputs=t.n_outputs) for t in tasks()]
    return Case(with_rest(network()), made, lasting(SETTINGS, schedule))


def some_known() -> Case:
    """Returns tasks that share examples, of which each knows the label of some; weighed anew."""
    made = []
    for index, task in enumerate(tasks()):
        rows = torch.arange(40)[torch.arange(40) % 3 != index]
        made.append(al.Task(task.name, replace(task.train, rows=rows)))
    settings = replace(SETTINGS, rounds=8, loss_balancing=UncertaintyWeighting(0.1))
    return Case(network(), made, replace(settings, schedule="multi_label"))


def observing() -> Case:
    """Returns gates that learn from the losses they are told, dropout, metrics and validation."""
    made = network()
    made.dropout = 0.2
    made.modular_layers[0].allocation = ScoreFunctionMatrix(3, 3, p_init=0.8)
    made.number_layers()
    measured = [replace(task, metrics={"worst": worst}) for task in tasks()]
    return Case(made, measured, replace(SETTINGS, rounds=10, evaluate_every=10))


def by_example(made: Case) -> Case:
    """Returns a case with masks that learn by the loss of each example."""
    network = as_network(made.network)
    network.modular_layers[0].allocation = ScoreFunctionByExample(3, 3, n_features=6)
    network.number_layers()
    return made._replace(settings=replace(made.settings, penalties=al.Penalties()))


def worst(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the largest error; a mean over processes would be another number."""
    answers = outputs.argmax(dim=1) if outputs.shape[1] > 1 else outputs.squeeze(1)
    return (answers - targets).abs().max()


def lasting(settings: al.TrainingSettings, schedule: str) -> al.TrainingSettings:
    """Returns settings with fifty steps, or a few more."""
    rounds = N_STEPS if schedule == "joint" else -(-N_STEPS // 3)
    return replace(settings, rounds=rounds, schedule=schedule)


CASES: dict[str, Callable[[], Case]] = {
    "own, alternating": lambda: own("alternating"),
    "own, joint": lambda: own("joint"),
    "modularized, alternating": lambda: modularized("alternating"),
    "modularized, joint": lambda: modularized("joint"),
    "streamed, alternating": lambda: streamed("alternating"),
    "streamed, joint": lambda: streamed("joint"),
    "some known": some_known,
    "observing": observing,
    "masks by example, streamed": lambda: by_example(streamed("joint")),
    "masks by example of some known": lambda: by_example(some_known()),
}
