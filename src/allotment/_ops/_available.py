"""Whether the kernels of this folder can run."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

CHANNELS = range(8, 257)  # fewer gain nothing; a kernel holds a square table of them
TYPES = (torch.float32, torch.bfloat16, torch.float16)


_plain: ContextVar[bool] = ContextVar("_plain", default=False)


@contextmanager
def plain_operations() -> Iterator[None]:
    """Leaves the kernels aside; to be held where operations are recorded.

    A recorder sees torch's operations and not the launch of a kernel: in its place it would leave
    memory that nothing was written to.
    """
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def kernels_run_on(x: Tensor) -> bool:
    """Tells whether kernels can run where a tensor is."""
    return x.is_cuda and not _plain.get() and has_triton()


def are_of_one_type(x: Tensor, weight: Tensor) -> bool:
    """Tells whether images and kernels meet as they are.

    Where not, it is a mistake or a matter of autocast, and torch's own convolution deals with both.
    """
    is_cast = torch.is_autocast_enabled("cuda") and x.dtype != torch.get_autocast_dtype("cuda")
    return x.dtype == weight.dtype and not is_cast


@cache
def has_triton() -> bool:
    """Tells whether Triton is installed, as it is with CUDA builds of torch."""
    return find_spec("triton") is not None


def can_fuse(x: Tensor) -> bool:
    """Tells whether a kernel can take images ``[B, C, H, W]``; under `vmap` as well."""
    return kernels_run_on(x) and x.ndim == 4 and x.dtype in TYPES and x.shape[1] in CHANNELS
