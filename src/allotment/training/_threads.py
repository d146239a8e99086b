"""How many threads short operations should use."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

SMALL = 8_000_000  # floating-point operations of a forward pass of all runs


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


def threads_for(n_operations: int) -> AbstractContextManager[None]:
    """Lets a small program on a CPU use one thread.

    Its operations are too short to gain from more (two_pairs with 5 runs took the same time on
    one as on two), and where another program wanted the cores, steps took 20 times as long. The
    rule looks at sizes alone, so that a seed gives the same numbers each time.
    """
    return one_thread() if n_operations < SMALL else nullcontext()
