"""Every random draw is a function of a seed, a use and a block of steps.

No generator state is kept: going on from a later block needs its number only, runs trained
together draw what each would draw alone, and a new use leaves the other draws as they were.

>>> from allotment._streams import stream
>>> import torch
>>> torch.equal(
...     torch.rand(3, generator=stream(7, "gates", 2)),
...     torch.rand(3, generator=stream(7, "gates", 2)),
... )
True
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def stream_seed(seed: int, use: str, block: int = 0) -> int:
    """Returns the 63-bit number that starts ``use`` in this block of the run with this seed."""
    digest = hashlib.sha256(f"{seed}/{use}/{block}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def stream(seed: int, use: str, block: int = 0) -> torch.Generator:
    """Returns the generator for ``use`` in this block of steps of the run with this ``seed``."""
    return torch.Generator().manual_seed(stream_seed(seed, use, block))


@contextmanager
def torch_stream(seed: int, use: str, block: int = 0) -> Iterator[None]:
    """Lets torch's own generators stand at the start of a stream, and puts them back after."""
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if on_gpu else []):
        start = stream_seed(seed, use, block)
        # `torch.manual_seed` notes the whole stack for each device that is not there.
        torch.default_generator.manual_seed(start)
        if on_gpu:
            torch.cuda.manual_seed(start)
        yield
