"""How a dimension that `vmap` adds becomes part of the batch, and one again."""

import torch
from torch import Tensor


def is_batched(x: Tensor) -> bool:
    """Tells whether `vmap` has added a dimension to a tensor; torch has no public name for it."""
    found: bool = torch._C._functorch.is_batchedtensor(x)
    return found


def fold(n: int, dim: int | None, x: Tensor | None) -> Tensor | None:
    """Returns ``x`` with the added dimension of size ``n`` inside its first one."""
    if x is None:
        return None
    in_front: Tensor = x.expand(n, *x.shape) if dim is None else x.movedim(dim, 0)
    return in_front.reshape(n * in_front.shape[1], *in_front.shape[2:])


def fold_with_kernels(
    n: int, in_dims: tuple[int | None, ...], x: Tensor, rows: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Returns images and rows of kernels folded; a row that serves all images needs no copies."""
    is_for_all = in_dims[1] is None and len(rows) == 1
    return fold(n, in_dims[0], x), rows if is_for_all else fold(n, in_dims[1], rows)


def unfold(n: int, y: Tensor) -> Tensor:
    """Returns ``y`` with the added dimension in front again."""
    return y.view(n, y.shape[0] // n, *y.shape[1:])
