"""Scores of components for each example: a linear gate for each task."""

import torch
from torch import Tensor, nn

from .._checks import check_count
from ._base import row
from ._features import example_features


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
