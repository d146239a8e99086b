"""Experiments at toy size: few rounds, few runs, and a data folder with made-up images."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pytest import MonkeyPatch

from allotment.data import DATASETS, Array, ArraySpec
from allotment.experiments import EXPERIMENTS, Experiment

N_IMAGES = {"train": 50, "test": 20}


def toy(name: str, rounds: int = 3, **training: Any) -> Experiment:
    """A declared experiment that is over after a few rounds."""
    experiment = EXPERIMENTS[name]
    settings = replace(experiment.training, rounds=rounds, **training)
    return replace(experiment, training=settings, n_runs=2)


def make_small_mnist(folder: Path, monkeypatch: MonkeyPatch) -> Path:
    """Writes a prepared ``mnist.npz`` with a few images, and has so few declared."""
    random = np.random.default_rng(0)
    arrays: dict[str, Array] = {}
    for part, n in N_IMAGES.items():
        arrays[f"x_{part}"] = random.integers(256, size=(n, 28, 28), dtype=np.uint8)
        arrays[f"y_{part}"] = np.arange(n, dtype=np.uint8) % 10
    specs = {name: ArraySpec("uint8", array.shape) for name, array in arrays.items()}
    monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], arrays=specs))
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "mnist.npz", allow_pickle=False, **arrays)
    return folder
