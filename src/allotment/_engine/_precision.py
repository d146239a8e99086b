"""The precision of products, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map


@contextmanager
def arithmetic(mixed_precision: str) -> Iterator[None]:
    """Computes products on a GPU as ``mixed_precision`` says, and puts things back as they were.

    ``tf32`` is float32 with a shorter fraction inside convolutions and matrix products. With
    ``bfloat16`` they take and give numbers of 16 bits, and sums stay float32.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    is_low = mixed_precision == "bfloat16"
    try:
        matmul.allow_tf32 = cudnn.allow_tf32 = mixed_precision != "off"
        with torch.autocast("cuda", torch.bfloat16, enabled=is_low, cache_enabled=False):
            yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def rounded(x: Any, mixed_precision: str) -> Any:
    """Returns inputs in the type that products take."""
    if mixed_precision != "bfloat16":
        return x

    def one(part: Any) -> Any:
        return part.bfloat16() if isinstance(part, Tensor) and part.is_floating_point() else part

    return tree_map(one, x)


def widened(y: Tensor) -> Tensor:
    """Returns outputs in a type that a loss can be computed in."""
    return y.float() if y.dtype == torch.bfloat16 else y
