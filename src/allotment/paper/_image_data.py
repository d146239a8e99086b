"""What tasks on images share: rows in parts, turned pixels, and scikit-learn's digits."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .._streams import stream

SHARES = (0.5, 0.2, 0.3)  # train, validation, test
HELD_OUT = 1 / 6  # of published training images, for validation where methods are compared
SPLIT_SEED = 0  # one split for every run, so that runs differ in training alone
PARTS = ("train", "test")  # of published data sets
SCALE = 1 / 255  # of their bytes


def rotated(size: int) -> Tensor:
    """Returns the permutation of pixels that turns square grey images by 90 degrees clockwise."""
    return torch.arange(size * size).view(size, size).rot90(k=-1).flatten()


def split_rows(n: int, shares: Sequence[float], *, seed: int, use: str = "split") -> list[Tensor]:
    """Returns the rows ``0 .. n - 1`` at random in parts of these shares, each sorted.

    Another ``use`` of the same seed gives other parts.
    """
    order = torch.randperm(n, generator=stream(seed, use))
    edges = [round(n * sum(shares[: i + 1])) for i in range(len(shares))]
    starts = [0, *edges[:-1]]
    return [order[start:end].sort().values for start, end in zip(starts, edges, strict=True)]


def held_out_rows(n: int, share: float) -> tuple[Tensor | None, Tensor | None]:
    """Returns the rows for training and those for validation; None and None for a share of 0."""
    if not share:
        return None, None
    train, held = split_rows(n, (1 - share, share), seed=SPLIT_SEED, use="held out")
    return train, held


def digit_images() -> tuple[Tensor, Tensor]:
    """Returns scikit-learn's 1,797 drawings of digits ``[N, 1, 8, 8]``, and what they show."""
    from sklearn.datasets import load_digits  # only here: importing it takes a second

    bunch = load_digits()
    images = torch.from_numpy(bunch.images).float().unsqueeze(1) / 16
    return images, torch.from_numpy(bunch.target).long()
