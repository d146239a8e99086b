"""Four tasks on the 8x8 digits that come with scikit-learn: real images, nothing to download."""

import torch

from ...tasks import Split, Task
from ._images import rotated, split_rows

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
