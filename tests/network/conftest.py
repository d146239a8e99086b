"""One thread: toys gain nothing from more, and lose much beside other programs."""

from collections.abc import Iterator

import torch
from pytest import fixture


@fixture(autouse=True)
def one_thread() -> Iterator[None]:
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)
