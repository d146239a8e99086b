"""Features of examples, for allocations that look at them, and linear gates on the features."""

from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_count
from ._base import row


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


class LinearGate(nn.Module):
    """A linear map from an example's features to one score a component, for each task its own.

    Tables and no `nn.Linear`: a task's part is gathered by its number, and a network that draws
    the weights of its linear layers anew leaves a gate alone. Weights start as Glorot's uniform
    ones, so that gates start apart; biases start at zero.

    Attributes:
        weight: ``[T, C, n_features]``.
        bias: ``[T, C]``: the scores of an example whose features are all zero.
    """

    def __init__(self, n_tasks: int, n_components: int, n_features: int) -> None:
        super().__init__()
        check_count("n_features", n_features)
        self.n_features = n_features
        bound = (6 / (n_features + n_components)) ** 0.5
        weight = torch.empty(n_tasks, n_components, n_features).uniform_(-bound, bound)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(n_tasks, n_components))

    def forward(self, task: int | Tensor, x: Tensor | None) -> Tensor:
        """Returns the scores of a task's examples, ``[B, C]``."""
        features = example_features(x, self.n_features).to(self.weight.dtype)
        scores = features @ row(self.weight, task).T + row(self.bias, task)
        return scores.to(self.weight.dtype)  # where products have fewer digits, scores keep theirs

    def extra_repr(self) -> str:
        return f"n_features={self.n_features}"
