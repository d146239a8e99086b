"""Independent computations on streams of their own, where a CUDA graph is being captured.

A small operation leaves most of a GPU idle. In a captured graph, computations that do not wait for
each other share the device; outside of a capture the host is too slow for that to help.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

# Of one program: over its runs, and over the branches inside each. Torch has 32, and gives them out
# again from the first: two computations on one stream would wait for each other.
MOST_STREAMS = 28

Result = TypeVar("Result")  # a tensor, or a tuple or a dict that holds some

_free: ContextVar[range] = ContextVar("_free", default=range(MOST_STREAMS))
_read_elsewhere: ContextVar[list[Tensor] | None] = ContextVar("_read_elsewhere", default=None)


@cache
def _stream(number: int) -> torch.cuda.Stream:
    return torch.cuda.Stream()


@contextmanager
def cuda_streams() -> Iterator[None]:
    """Lets `on_streams` use streams; to be held around the capture of a CUDA graph.

    Memory is reused stream by stream, so tensors that cross from one to another are kept until
    the capture is over.
    """
    token = _read_elsewhere.set([])
    try:
        yield
    finally:
        _read_elsewhere.reset(token)


def has_streams() -> bool:
    """Tells whether two calls would have streams of their own."""
    return _read_elsewhere.get() is not None and len(_free.get()) > 1


def keep_for_capture(tensors: Iterable[Tensor]) -> None:
    """Keeps tensors until a capture with streams is over; does nothing outside of one.

    For those made before streams part and read on several, such as weights in another precision.
    """
    kept = _read_elsewhere.get()
    if kept is not None:
        kept += [tensor.detach() for tensor in tensors]


def on_streams(calls: Sequence[Callable[[], Result]], shared: Sequence[Tensor]) -> list[Result]:
    """Returns what each call returns; within `cuda_streams` they have streams of their own.

    ``shared`` are the tensors that the calls read and that do not outlive them. Calls inside calls
    divide the streams among them; where too few are left, several take turns on one.
    """
    kept = _read_elsewhere.get()
    shares = _shares(_free.get(), len(calls))
    if len(set(shares)) < 2 or kept is None:
        return [call() for call in calls]
    main = torch.cuda.current_stream()
    streams = list(dict.fromkeys(_stream(share[0]) for share in shares))
    for stream in streams:
        stream.wait_stream(main)
    results: list[Result] = []
    for share, call in zip(shares, calls, strict=True):
        token = _free.set(share[1:])
        try:
            with torch.cuda.stream(_stream(share[0])):
                results.append(call())
        finally:
            _free.reset(token)
    for stream in streams:
        main.wait_stream(stream)
    keep_for_capture((*shared, *_tensors(results)))
    return results


def _shares(free: range, n: int) -> list[range]:
    """Returns the streams of each of ``n`` calls; none where there are too few to begin with."""
    n_shares = min(n, len(free))
    return [free[index % n_shares :: n_shares] for index in range(n)] if free else []


def _tensors(results: Sequence[Any]) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, Tensor)]
