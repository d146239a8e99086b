"""Small tasks, networks and runs, and their outcomes."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from allotment.network import Allocation, GumbelMatrix, ModularLayer, MultiTaskNetwork
from allotment.tasks import FreshSamples, Split, Task
from allotment.training import Progress, Run, TrainingSettings, train
from allotment.training._run import Run as _Run

N_INPUTS = 6
SETTINGS = TrainingSettings(rounds=10, batch_size=8, learning_rate=0.01)
Outcomes = list[object]


class Line(FreshSamples):
    """A line with a little noise."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.direction = torch.randn(N_INPUTS, generator=generator)

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, N_INPUTS, generator=generator)
        return x, x @ self.direction + 0.1 * torch.randn(n, generator=generator)
