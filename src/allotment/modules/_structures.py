"""Outputs that are tensors, or tuples and dicts that hold tensors."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree

from .._checks import described


def by_tensor(combine: Callable[[Sequence[Tensor]], Tensor], outputs: Sequence[Any]) -> Any:
    """Returns outputs combined, each tensor of a tuple or a dict for itself.

    What is no tensor, such as None, has to be the same in all of them.
    """
    if isinstance(outputs[0], Tensor):
        return combine(outputs)
    columns, form = zip(*(pytree.tree_leaves(y) for y in outputs), strict=True), outputs[0]
    leaves = [_combined(combine, column) for column in columns]
    return pytree.tree_unflatten(leaves, pytree.tree_structure(form))


def each_tensor(change: Callable[[Tensor], Tensor], output: Any) -> Any:
    """Returns an output with each of its tensors changed."""
    if isinstance(output, Tensor):
        return change(output)
    return pytree.tree_map_only(Tensor, change, output)


def tensors_of(values: Any) -> list[Tensor]:
    """Returns the tensors that lie anywhere in tuples and dicts."""
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]


def shapes(output: Any) -> Any:
    """Returns the shape of an output, or the shapes of the tensors in a tuple or a dict."""
    if isinstance(output, Tensor):
        return list(output.shape)
    return each_tensor(lambda y: list(y.shape), output)  # type: ignore[arg-type, return-value]


def _combined(combine: Callable[[Sequence[Tensor]], Tensor], column: Sequence[Any]) -> Any:
    first = column[0]
    if isinstance(first, Tensor) and first.is_floating_point():
        return combine(column)
    is_plain = first is None or isinstance(first, bool | int | float | str)
    if is_plain and all(other == first for other in column):
        return first
    what = f"a tensor of {first.dtype}" if isinstance(first, Tensor) else described(first)
    raise TypeError(
        "A component should return a floating-point tensor, or a tuple or a dict of them. "
        f"Found {what} in what one returns."
    )
