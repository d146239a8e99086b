"""Experiments at toy size: few rounds, few runs, and a data folder with made-up images."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pytest import MonkeyPatch
from torch import nn

from allotment.data import DATASETS, Array, ArraySpec
from allotment.data._census import COLUMNS, census_arrays
from allotment.experiments import Allocate, Experiment, TaskChoice
from allotment.modules import MultiTaskNetwork
from allotment.paper import EXPERIMENTS
from allotment.paper.networks import census_network
from allotment.tasks import Task
from tests.paper.made_up import as_published, drawings, grey_images, people, photographs

# Recording a step of a deep network takes ten times as long as these few rounds.
OMNIGLOT = {"batch_size": 2, "evaluate_every": 10, "trace": False}
LARGE = {
    "omniglot": OMNIGLOT,
    "omniglot_tuned": OMNIGLOT,
    "omniglot_alone": OMNIGLOT,
    "clusters": {"batch_size": 2, "trace": False},
}
LARGE |= {
    f"{kind}_{name}": LARGE[name]
    for kind in ("comparison", "remedy")
    for name in ("omniglot", "clusters")
}
# Of those that have many; of maps: arrays, generated examples, and another network.
CONDITIONS = {
    "omniglot_alone": ("Gujarati", "Korean"),
    "map": ("rho=0 n=50", "rho=1 n=200", "rho=0.5 n=unlimited", "rho=1 n=1000 width=4"),
    "map_census": ("n=100", "n=all"),
    "map_mnist": ("n=100", "n=all"),
}
ONE_IN = 10  # of the tasks of a large experiment
SIZE = 12  # of Omniglot's drawings; one of the published 105 x 105 takes a second to train on


def toy(name: str, rounds: int = 3, **training: Any) -> Experiment:
    """A declared experiment that is over after a few rounds; a large one has fewer tasks too.

    Learning rates are as declared.
    """
    experiment = EXPERIMENTS[name]
    settings = experiment.training.changed(rounds=rounds, **LARGE.get(name, {}) | training)
    changed = replace(experiment, training=settings, n_runs=2, search=None)
    if name in CONDITIONS:
        changed = replace(changed, data=replace(changed.data, conditions=CONDITIONS[name]))
    if name.endswith("_census"):
        return replace(changed, network=small_census_network)
    if name not in LARGE:
        return changed

    def some_tasks(choice: TaskChoice) -> list[Task]:
        return list(experiment.make_tasks(choice))[::ONE_IN]

    def network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
        full = experiment.network(allocate, outputs)
        assert isinstance(full, MultiTaskNetwork)
        # The heads expect the 4 x 4 pixels that larger drawings end as.
        full.layers[-1] = nn.Sequential(nn.Upsample(size=(4, 4)), nn.Flatten())
        return full

    return replace(changed, tasks=some_tasks, network=network)


def small_census_network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """The network of the census for the features of the made-up one."""
    return census_network(allocate, outputs, n_features=24)


def make_small_data(folder: Path, monkeypatch: MonkeyPatch, *names: str) -> Path:
    """Writes prepared data sets of a few images each, and has so few declared."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name == "census":
            make_small_census(folder, monkeypatch)
            continue
        arrays = _made_up(name)
        specs = {key: ArraySpec(_kind(array), array.shape) for key, array in arrays.items()}
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], arrays=specs))
        np.savez(folder / f"{name}.npz", allow_pickle=False, **arrays)
    return folder


def make_small_census(folder: Path, monkeypatch: MonkeyPatch) -> None:
    """Writes a made-up census as the published one is, and has it declared."""
    rows, content = people(), as_published(people())
    counts = {
        name: kind if isinstance(kind, str) else len({row[place] for row in rows})
        for place, (name, kind) in enumerate(COLUMNS.items())
    }
    declared = DATASETS["census"]
    archives = (replace(declared.archives[0], md5=hashlib.md5(content).hexdigest()),)
    small = replace(declared, arrays=census_arrays(len(rows), counts), archives=archives, checks=())
    monkeypatch.setitem(DATASETS, "census", small)
    (folder / small.file_name).write_bytes(content)


def make_small_mnist(folder: Path, monkeypatch: MonkeyPatch) -> Path:
    """Writes a prepared ``mnist.npz`` with a few images, and has so few declared."""
    return make_small_data(folder, monkeypatch, "mnist")


def _made_up(name: str) -> dict[str, Array]:
    match name:
        case "omniglot":
            return drawings(n_drawers=4, size=SIZE)
        case "cifar100":
            return photographs(n_train=5)
        case _:
            return grey_images(n_train=50, n_test=20)


def _kind(array: Array) -> str:
    return "str" if array.dtype.kind == "U" else array.dtype.name
