"""Whether the kernels of this folder can run."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

MOST_CHANNELS = 256  # a kernel holds a square table of the channels


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def can_fuse(x: Tensor) -> bool:
    """Tells whether a kernel can take images ``[B, C, H, W]``; under `vmap` as well."""
    is_known = x.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return x.is_cuda and x.ndim == 4 and is_known and x.shape[1] <= MOST_CHANNELS and _has_triton()
