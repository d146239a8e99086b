"""How a dimension that `vmap` adds becomes part of the batch, and one again."""

from torch import Tensor


def fold(n: int, dim: int | None, x: Tensor | None) -> Tensor | None:
    """Returns ``x`` with the added dimension of size ``n`` inside its first one."""
    if x is None:
        return None
    in_front: Tensor = x.expand(n, *x.shape) if dim is None else x.movedim(dim, 0)
    return in_front.reshape(n * in_front.shape[1], *in_front.shape[2:])


def unfold(n: int, y: Tensor) -> Tensor:
    """Returns ``y`` with the added dimension in front again."""
    return y.view(n, y.shape[0] // n, *y.shape[1:])
