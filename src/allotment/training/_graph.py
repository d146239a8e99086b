"""The whole step as one CUDA graph: captured once, replayed without the host."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ..network import cuda_streams
from ._blocks import Block
from ._replicas import Replicas

N_WARM_UPS = 3  # passes before the capture, in which libraries choose their kernels


class GraphSteps:
    """Replays a captured step over the entries of a block that stays on the device.

    Which entry is next is counted on the device, so that a replay needs nothing from the host.
    """

    def __init__(
        self,
        step: Callable[[Block, Tensor], Tensor],
        block: Block,
        tasks_per_step: int,
        replicas: Replicas,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._step = step
        self._block = block.to(replicas.device)
        self._position = torch.zeros(1, dtype=torch.int64, device=replicas.device)
        n_steps = len(block.tasks) // tasks_per_step
        shape = (n_steps, replicas.n_runs, tasks_per_step)
        self._losses = torch.zeros(shape, device=replicas.device)
        untouched = replicas.snapshot()
        try:
            self._warm_up()
            self._graph = torch.cuda.CUDAGraph()
            with cuda_streams(), torch.cuda.graph(self._graph):
                self._next()
        finally:  # training goes on without a graph where there is none
            replicas.restore(untouched)
            replicas.n_batches.zero_()
            for state in optimizer.state.values():
                for value in state.values():
                    value.zero_()

    def _warm_up(self) -> None:
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(N_WARM_UPS):
                self._next()
        torch.cuda.current_stream().wait_stream(beside)

    def _next(self) -> None:
        losses = self._step(self._block, self._position)
        self._losses.index_copy_(0, self._position, losses.unsqueeze(0))
        self._position += 1

    def __call__(self, block: Block, n_steps: int) -> Tensor:
        """Starts steps of a block; returns their losses to be, ``[S, R, tasks per step]``."""
        for here, new in zip(self._block.tensors(), block.tensors(), strict=True):
            here.copy_(new)
        self._position.zero_()
        for _ in range(n_steps):
            self._graph.replay()
        return self._losses[:n_steps]


@contextmanager
def fastest_convolutions() -> Iterator[None]:
    """Lets the library try its ways of convolving, where any may be used, and keep the fastest.

    It remembers its way for each shape from the first time, whether it tried them then or not: so
    this should be held around the very first pass.
    """
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.benchmark_limit
    cudnn.benchmark = cudnn.benchmark or not torch.are_deterministic_algorithms_enabled()
    cudnn.benchmark_limit = 0  # all of them: a tenth faster than the best of ten, found as soon
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.benchmark_limit = before
