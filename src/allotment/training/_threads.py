"""How many threads a small program should use."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 8_000_000  # floating-point operations of a forward pass of all runs


@contextmanager
def threads_for(n_operations: int) -> Iterator[None]:
    """Lets a small program on a CPU use one thread.

    Its operations are too short to gain from more (two_pairs with 5 runs took the same time on
    one as on two), and where another program wants the cores, threads that wait for each other in
    every operation made steps 20 times slower. The rule looks at sizes alone, so that a seed
    gives the same numbers each time.
    """
    before = torch.get_num_threads()
    if n_operations < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
