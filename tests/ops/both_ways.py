"""An operation by its kernel and by torch's own operations.

Kernels run on a GPU. Without one, ``TRITON_INTERPRET=1`` and an installed Triton run them in
Triton's interpreter, which takes some minutes.
"""

import os
from collections.abc import Callable, Sequence

import torch
from pytest import mark
from torch import Tensor

from allotment._ops._available import has_triton

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")

needs_kernels = mark.skipif(
    not has_triton() or not (INTERPRETED or torch.cuda.is_available()),
    reason="the kernels run on a GPU",
)

# Both ways compute in float32; with 16 bits they differ by one rounding of what comes out.
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 2**-7}

Operation = Callable[..., Tensor]
BothWays = Callable[[Operation, Sequence[Tensor | None]], None]


def with_gradients(operation: Operation, arguments: Sequence[Tensor | None]) -> list[Tensor]:
    """Returns what comes out, and the gradients of a sum of it with weights that differ."""
    leaves = [None if t is None else t.detach().clone().requires_grad_() for t in arguments]
    y = operation(*leaves)
    upstream = torch.linspace(-50, 50, y.numel(), device=y.device).sin().view(y.shape).bfloat16()
    learnt = [t for t in leaves if t is not None]
    return [y.detach(), *torch.autograd.grad(y, learnt, upstream.to(y.dtype))]
