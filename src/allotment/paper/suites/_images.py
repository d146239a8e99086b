"""Four tasks on images of digits, upright and rotated: MNIST's, and those of scikit-learn."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..._streams import stream
from ...data import load
from ...tasks import Split, Task


def rotated(size: int, n_channels: int = 1) -> Tensor:
    """Returns the permutation of pixels that turns square images by 90 degrees clockwise."""
    positions = torch.arange(n_channels * size * size).view(n_channels, size, size)
    return torch.rot90(positions, k=-1, dims=(1, 2)).flatten()


def split_rows(n: int, shares: Sequence[float], *, seed: int, use: str = "split") -> list[Tensor]:
    """Returns the rows ``0 .. n - 1`` at random in parts of these shares, each sorted.

    Another ``use`` of the same seed gives other parts.
    """
    order = torch.randperm(n, generator=stream(seed, use))
    edges = [round(n * sum(shares[: i + 1])) for i in range(len(shares))]
    starts = [0, *edges[:-1]]
    return [order[start:end].sort().values for start, end in zip(starts, edges, strict=True)]


SHARES = (0.5, 0.2, 0.3)  # train, validation, test
SPLIT_SEED = 0  # one split for every run, so that runs differ in training alone


def digits() -> list[Task]:
    """Returns digits, digits again, rotated, rotated again; the four share one copy of the images.

    A small likeness of the paper's 4-MNISTs; the copies see the examples in other orders.
    """
    from sklearn.datasets import load_digits  # only here: importing it takes a second

    bunch = load_digits()
    images = torch.from_numpy(bunch.images).float().unsqueeze(1) / 16  # [N, 1, 8, 8]
    labels = torch.from_numpy(bunch.target).long()
    parts = split_rows(len(images), SHARES, seed=SPLIT_SEED)

    def task(name: str, is_rotated: bool) -> Task:
        turned = rotated(8) if is_rotated else None
        train, validation, test = (Split(images, labels, rows, turned) for rows in parts)
        return Task(name, train, validation, test, family="rotated" if is_rotated else "upright")

    return [
        task("digits", False),
        task("digits again", False),
        task("rotated", True),
        task("rotated again", True),
    ]


SCALE = 1 / 255
PARTS = ("train", "test")


def four_mnists(folder: str | Path | None = None) -> list[Task]:
    """Returns the four tasks; they share one copy of the images and have no validation split.

    The rotation is clockwise, as the paper says; the authors' code turns the other way.
    """
    arrays = load("mnist", folder)
    x_train, x_test = (torch.from_numpy(arrays[f"x_{part}"]).unsqueeze(1) for part in PARTS)
    y_train, y_test = (torch.from_numpy(arrays[f"y_{part}"]).long() for part in PARTS)
    turned = rotated(28)

    def task(name: str, is_rotated: bool) -> Task:
        train, test = (
            Split(x, y, permutation=turned if is_rotated else None, scale=SCALE)
            for x, y in ((x_train, y_train), (x_test, y_test))
        )
        return Task(name, train, test=test, family="rotated" if is_rotated else "upright")

    return [
        task("MNIST", False),
        task("MNIST again", False),
        task("MNIST rotated", True),
        task("MNIST rotated again", True),
    ]
