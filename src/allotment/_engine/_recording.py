"""A step recorded once and replayed: as tensor operations, or as one CUDA graph.

Batching over runs and building the backward pass cost Python time at every step. Both come out the
same each time, so they are done once and the operations they lead to are kept. On a GPU the whole
step is captured, and replayed without the host.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from .._ops import cuda_streams, plain_operations
from ._batch import Block

if TYPE_CHECKING:
    from ..modules import Pass, TaskNetwork

N_WARM_UPS = 3  # passes before the capture, in which libraries choose their kernels

Gradients = Callable[[list[Tensor], Any], tuple[Tensor, Tensor, list[Tensor]]]


def traced(
    gradients: Gradients, parameters: list[Tensor], batch: Any, *, compiled: bool = False
) -> Gradients:
    """Returns a function that replays what ``gradients`` does for a batch of this shape.

    Tensors that it reads beside its arguments are read anew at each call. ``compiled`` has torch
    fuse the operations, which takes a minute or so once. Whatever keeps it from being recorded is
    raised, for instance by a component that looks at values to decide what to do.
    """
    # A plain function: the recorder miscounts the arguments of a bound method.
    with plain_operations():
        record = make_fx(lambda parameters, batch: gradients(parameters, batch))
        graph = record(parameters, batch)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    recorded = torch.compile(graph, dynamic=False) if compiled else graph
    with torch.no_grad():
        recorded(parameters, batch)  # compilation happens at the first call

    def replay(parameters: list[Tensor], batch: Any) -> tuple[Tensor, Tensor, list[Tensor]]:
        with torch.no_grad():
            result: tuple[Tensor, Tensor, list[Tensor]] = recorded(parameters, batch)
            return result

    return replay


def compiled_pass(network: "TaskNetwork") -> Callable[..., Tensor]:
    """Returns a network's pass with its operations fused; what cannot be is computed as it is.

    It is compiled when it is first called, for each task by itself, and anew where shapes differ.
    """
    compiled = torch.compile(network.compute)
    # A task is a constant, and sizes of batches are not; each task is a version of its own.
    options = {"specialize_int": True, "recompile_limit": 8 + 4 * network.n_tasks}

    def compute(x: Any, running: "Pass") -> Tensor:
        with torch._dynamo.config.patch(options):
            outputs: Tensor = compiled(x, running)
            return outputs

    return compute


class GraphSteps:
    """Replays a captured step over the entries of a block that stays on the device.

    Which entry is next is counted on the device, so that a replay needs nothing from the host.
    What warming up moves is not put back here.
    """

    def __init__(
        self, step: Callable[[Block, Tensor], Tensor], block: Block, shape: tuple[int, int, int]
    ) -> None:
        self._step = step
        self._block = block
        device = block.tasks.device
        self._position = torch.zeros(1, dtype=torch.int64, device=device)
        self._losses = torch.zeros(shape, device=device)  # [S, R, tasks per step]
        self._warm_up()
        self._graph = torch.cuda.CUDAGraph()
        with without_collector(), cuda_streams(), torch.cuda.graph(self._graph):
            self._next()

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
def without_collector() -> Iterator[None]:
    """Keeps Python from freeing an older graph during a capture, which would spoil it."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
