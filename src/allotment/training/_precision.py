"""The precision of products, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

PRECISIONS = ["float32", "tf32", "bfloat16"]


@contextmanager
def arithmetic(precision: str, device: torch.device) -> Iterator[None]:
    """Computes products as ``precision`` says, and puts things back as they were.

    ``tf32`` is float32 with a shorter fraction inside convolutions and matrix products, on GPUs
    alone. With ``bfloat16`` they take and give numbers of 16 bits, and sums stay float32.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    low = torch.autocast(
        device.type, torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=False
    )
    try:
        if device.type == "cuda":
            matmul.allow_tf32 = cudnn.allow_tf32 = precision != "float32"
        with low:
            yield
    finally:
        if device.type == "cuda":
            matmul.allow_tf32, cudnn.allow_tf32 = before
