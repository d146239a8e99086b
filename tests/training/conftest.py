"""One thread, and double precision for telling two ways to one result from two results."""

from collections.abc import Iterator

import torch
from pytest import fixture


@fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Keeps torch on one thread: toys gain nothing from more, and lose beside other programs."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


@fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
