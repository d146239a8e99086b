"""Blocks of models as people write them, with further arguments such as masks."""

from typing import Any

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """One head of attention over sequences ``[B, L, D]``; a mask says what may be looked at."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.projection = nn.Linear(n_features, 3 * n_features)

    def forward(self, x: Tensor, mask: Tensor | None = None, *, scale: float = 1.0) -> Tensor:
        q, k, v = self.projection(x).chunk(3, dim=-1)
        scores = scale * q @ k.transpose(-1, -2)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        y: Tensor = scores.softmax(-1) @ v
        return y


class Block(nn.Module):
    """Attention and a dense layer, each with a residual connection: a transformer's block."""

    def __init__(self, attention: nn.Module, dense: nn.Module, n_features: int) -> None:
        super().__init__()
        self.attention = attention
        self.dense = dense
        self.norms = nn.ModuleList(nn.LayerNorm(n_features) for _ in range(2))

    def forward(self, x: Tensor, *arguments: Any, **options: Any) -> Tensor:
        x = x + self.attention(self.norms[0](x), *arguments, **options)
        y: Tensor = x + self.dense(self.norms[1](x))
        return y


class Model(nn.Module):
    """Two blocks and the mean over a sequence, ``[B, D]``."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([first, second])

    def forward(self, x: Tensor, mask: Tensor | None = None, *, scale: float = 1.0) -> Tensor:
        for block in self.blocks:
            x = block(x, mask, scale=scale)
        return x.mean(1)


def causal(length: int) -> Tensor:
    """Returns the mask by which a position looks at itself and those before it."""
    return torch.ones(length, length, dtype=torch.bool).tril()
