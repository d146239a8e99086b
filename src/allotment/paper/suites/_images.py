"""Views of images, and splits of arrays into parts."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._streams import stream


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
