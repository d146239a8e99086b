"""Forty tasks on CIFAR-100, MNIST and Fashion-MNIST: which share? (paper, Section V-C)."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..allocation import GumbelMatrix, SharedBottom
from ..data import Array, load
from ..experiments import DataOptions, Experiment, Method, ReportOptions, using
from ..settings import Augmentation, Optimization, TrainingSettings
from ..tasks import Split, Task
from ._image_data import PARTS, SCALE, SPLIT_SEED, held_out_rows
from .networks import clusters_network

SIZE = 32  # of CIFAR's images, and of the others once they are resized
HELD_OUT = 0.2  # of each of CIFAR's classes
AT_ONCE = 10_000  # images that are resized together; bounds the memory
CLOTHES = (
    *("T-shirt", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def three_clusters(folder: str | Path | None = None, *, held_out: float = 0.0) -> list[Task]:
    """Returns 20 tasks on CIFAR-100, 10 on MNIST and 10 on Fashion-MNIST, of one shape of images.

    A task on CIFAR tells the classes of one superclass apart; one on the others, nine of the ten
    classes. The tasks on one data set share one copy of its images. Those on CIFAR have a
    validation split, and the others where a share of their training images is ``held_out``.

    Args:
        folder: Where prepared data sets lie; None: where they lie by default.
        held_out: The share of training images for validation, on MNIST and Fashion-MNIST.
    """
    names = ("cifar100", "mnist", "fashion_mnist")
    photographs, numerals, fashion = (load(name, folder) for name in names)
    return [
        *superclasses(photographs),
        *leaving_one_out("MNIST", "MNIST", numerals, "0123456789", held_out),
        *leaving_one_out("Fashion", "Fashion-MNIST", fashion, CLOTHES, held_out),
    ]


def superclasses(arrays: Mapping[str, Array]) -> list[Task]:
    """Returns a task for each superclass of CIFAR-100."""
    held_out = _held_out(arrays["x_train"], arrays["y_train_fine"])
    x_train, x_test = (
        torch.from_numpy(arrays[f"x_{part}"]).permute(0, 3, 1, 2).contiguous() for part in PARTS
    )
    places = _places(arrays["y_train_fine"], arrays["y_train_coarse"])
    y_train, y_test = (torch.from_numpy(places[arrays[f"y_{part}_fine"]]) for part in PARTS)

    def task(superclass: int, name: str) -> Task:
        of_train, of_test = (arrays[f"y_{p}_coarse"] == superclass for p in PARTS)
        train, validation = (
            Split(x_train, y_train, _rows(of_train & side), scale=SCALE)
            for side in (~held_out, held_out)
        )
        test = Split(x_test, y_test, _rows(of_test), scale=SCALE)
        label = f"CIFAR {name.replace('_', ' ')}"
        return Task(label, train, validation, test, family="CIFAR-100")

    return [task(*pair) for pair in enumerate(arrays["coarse_names"].tolist())]


def leaving_one_out(
    prefix: str,
    family: str,
    arrays: Mapping[str, Array],
    class_names: Sequence[str],
    held_out: float = 0.0,
) -> list[Task]:
    """Returns a task for each class, on the images of all others, their labels renumbered."""
    x_train, x_test = (resized(torch.from_numpy(arrays[f"x_{part}"])) for part in PARTS)
    y_train, y_test = (torch.from_numpy(arrays[f"y_{part}"]).long() for part in PARTS)

    rows, held = held_out_rows(len(x_train), held_out)

    def split(left_out: int, x: Tensor, y: Tensor, among: Tensor | None) -> Split:
        own = (y != left_out).nonzero().flatten() if among is None else among[y[among] != left_out]
        return Split(x, y - (y > left_out).long(), own, scale=SCALE)

    def task(left_out: int, name: str) -> Task:
        return Task(
            f"{prefix} without {name}",
            split(left_out, x_train, y_train, rows),
            None if held is None else split(left_out, x_train, y_train, held),
            split(left_out, x_test, y_test, None),
            family=family,
        )

    return [task(*pair) for pair in enumerate(class_names)]


def resized(images: Tensor) -> Tensor:
    """Returns grey images ``[N, H, W]`` as ``[N, 3, 32, 32]`` of bytes, bilinearly.

    The three channels are one in memory.
    """
    parts = [
        F.interpolate(part.unsqueeze(1).float(), size=(SIZE, SIZE), mode="bilinear")
        .round()
        .to(torch.uint8)
        for part in images.split(AT_ONCE)
    ]
    return torch.cat(parts).expand(-1, 3, -1, -1)


def _places(fine: Array, coarse: Array) -> Array:
    """Returns the position of each fine class among those of its superclass, int64."""
    places = np.zeros(int(fine.max()) + 1, dtype=np.int64)
    for superclass in np.unique(coarse):
        members = np.unique(fine[coarse == superclass])
        places[members] = np.arange(len(members))
    return places


def _held_out(images: Array, classes: Array) -> Array:
    """Returns which images are for validation, as truth values.

    They are those of each class with the smallest hashes, so that the order of a file does not
    matter. Equal images count once, for the first of their classes, and stay on one side.
    """
    hashes = np.array([_hash(image) for image in images])
    unique, inverse = np.unique(hashes, return_inverse=True)  # ordered by hash
    owners = np.full(len(unique), np.iinfo(np.int64).max)
    np.minimum.at(owners, inverse, classes)
    held_out = np.zeros(len(unique), dtype=bool)
    for owner in np.unique(owners):
        members = np.flatnonzero(owners == owner)
        held_out[members[: round(HELD_OUT * len(members))]] = True
    return held_out[inverse]


def _hash(image: Array) -> bytes:
    return hashlib.sha256(f"{SPLIT_SEED}/".encode() + image.tobytes()).digest()


def _rows(chosen: Array) -> Tensor:
    return torch.from_numpy(np.flatnonzero(chosen))


CLUSTERS = Experiment(
    name="clusters",
    summary="40 tasks on CIFAR-100, MNIST and Fashion-MNIST; which of them share?",
    tasks=lambda choice: three_clusters(choice.data_folder),
    network=clusters_network,
    methods=(
        Method(
            name="shared_bottom",
            label="Shared bottom",  # summed or averaged: the same under GroupNorm
            allocation=using(SharedBottom),
        ),
        Method(
            name="gumbel_budget",
            label="Gumbel-Matrix, budget 0.5",
            allocation=using(GumbelMatrix, keeps_one=False),
            training={"budget": 0.5},
        ),
        Method(
            name="gumbel",
            label="Gumbel-Matrix, no budget",
            allocation=using(GumbelMatrix, keeps_one=False),
        ),
    ),
    training=TrainingSettings(
        rounds=20_000,
        batch_size=32,
        optimization=Optimization(learning_rate=3e-4, allocation_learning_rate=6e-3),
        augmentation=Augmentation(crop=4),
    ),
    n_runs=3,
    data=DataOptions(sets=("cifar100", "mnist", "fashion_mnist")),
    report=ReportOptions(title="Three clusters of tasks", place="Section V-C"),
)
