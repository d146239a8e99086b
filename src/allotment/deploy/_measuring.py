"""What a network costs on this machine: parameters, operations, and time."""

from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

from ..tasks import Task
from ._examples import examples_of

BATCHES = (1, 64)  # examples at a time
_N_TIMES = 30


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a network costs.

    Attributes:
        n_parameters: In all.
        n_operations: Floating-point operations of products and convolutions, for one example.
        milliseconds: By the size of a batch, the median over some passes.
    """

    n_parameters: int
    n_operations: int
    milliseconds: dict[int, float]


@torch.no_grad()
def cost_of(network: nn.Module, task: Task) -> Cost:
    """Returns what a network costs that takes the inputs of a task as they are stored."""
    inputs = examples_of([task]).inputs
    counter = FlopCounterMode(display=False)
    with counter:
        network(_rows(inputs, 1))
    return Cost(
        n_parameters=sum(parameter.numel() for parameter in network.parameters()),
        n_operations=counter.get_total_flops(),
        milliseconds={n: _milliseconds(network, _rows(inputs, n)) for n in BATCHES},
    )


def _milliseconds(network: nn.Module, x: Any) -> float:
    times = []
    for _ in range(_N_TIMES):
        start = perf_counter()
        network(x)
        times.append(1_000 * (perf_counter() - start))
    return median(times[_N_TIMES // 5 :])  # the first passes allocate memory


def _rows(inputs: Any, n: int) -> Any:
    """Returns so many rows, some of them again where there are fewer."""
    return tree_map(lambda x: x[torch.arange(n) % len(x)], inputs)
