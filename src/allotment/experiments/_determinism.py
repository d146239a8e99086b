"""The same bits from a GPU each time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def determinism(wanted: bool) -> Iterator[None]:
    """Has torch choose deterministic algorithms, where it is wanted, and warn where it has none.

    A CPU needs nothing of this.
    """
    if not wanted:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.backends.cudnn.flags(deterministic=True, benchmark=False):
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)
