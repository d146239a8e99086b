"""Whether the kernels of this folder can run."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

CHANNELS = range(8, 257)  # fewer gain nothing; a kernel holds a square table of them


@cache
def has_triton() -> bool:
    """Tells whether Triton is installed, as it is with CUDA builds of torch."""
    return find_spec("triton") is not None


def can_fuse(x: Tensor) -> bool:
    """Tells whether a kernel can take images ``[B, C, H, W]``; under `vmap` as well."""
    is_known = x.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return x.is_cuda and x.ndim == 4 and is_known and x.shape[1] in CHANNELS and has_triton()
