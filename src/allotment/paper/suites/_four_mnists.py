"""MNIST, MNIST again, MNIST rotated, MNIST rotated again (paper, Section V-A)."""

from pathlib import Path

import torch

from ...data import load
from ...tasks import Split, Task
from ._images import rotated

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
