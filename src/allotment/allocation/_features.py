"""Features of examples, for allocations that look at them."""

from math import prod
from typing import Any

from torch import Tensor


def example_features(x: Any, n_features: int) -> Tensor:
    """Returns one row of ``n_features`` numbers for each example, shape ``[B, n_features]``.

    Inputs ``[B, n_features]`` are returned as they are. Of ``[B, n_features, ...]``, such as
    images with as many channels, the mean over the rest is taken. Others that hold ``n_features``
    numbers for each example are flattened. An input that is no tensor may have a method
    `mean_features`, which returns such rows.

    >>> from torch import ones
    >>> example_features(ones(5, 6, 4, 4), 6).shape, example_features(ones(5, 2, 3), 6).shape
    (torch.Size([5, 6]), torch.Size([5, 6]))
    """
    if hasattr(x, "mean_features"):
        x = x.mean_features()
    if isinstance(x, Tensor) and x.ndim > 1:
        if x.shape[1] == n_features:
            return x if x.ndim == 2 else x.flatten(2).mean(2)
        if prod(x.shape[1:]) == n_features:
            return x.flatten(1)
    found = f"shape {list(x.shape)}" if isinstance(x, Tensor) else f"{type(x).__name__}"
    raise ValueError(
        f"`x` should be of shape [B, {n_features}] or [B, {n_features}, ...], or hold {n_features} "
        f"numbers for each example, as `n_features = {n_features}` says. Found {found}."
    )
