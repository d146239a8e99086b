"""How many threads short operations should use."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Computes on one thread for a while.

    Threads wait for each other in every operation, and they wait busily: two programs with all
    cores each trained at a third of the speed on one GPU, though all that either had to do on the
    host was to draw numbers.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
