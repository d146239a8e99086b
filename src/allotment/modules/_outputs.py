"""What components return, tensors or tuples and dicts of them, and the weighted sum of it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .._checks import described
from .._ops import mix


def mixed(weights: Tensor, outputs: Sequence[Any]) -> Any:
    """Returns the weighted sum of outputs that stand in groups, ``[G, B, ...]`` each.

    ``weights`` are ``[C]``, or ``[B, C]`` with weights of each example's own. Of a tuple or a dict
    each tensor is mixed for itself.
    """
    if weights.ndim > 1:
        _check_has_examples(outputs)
    return by_tensor(lambda parts: mix(weights, parts), outputs)


def summed(weights: Tensor, outputs: Sequence[Any]) -> Any:
    """Returns the weighted sum of the outputs ``[B, ...]`` of components that are used."""
    if weights.ndim == 1:
        each = weights.unbind(0)
        return by_tensor(
            lambda parts: torch.stack([w * y for w, y in zip(each, parts, strict=True)]).sum(0),
            outputs,
        )
    _check_has_examples(outputs)
    return mix(weights, [y.unsqueeze(0) for y in outputs])


def _check_has_examples(outputs: Sequence[Any]) -> None:
    """Raises unless the examples lie in front, as they do in one tensor."""
    if not isinstance(outputs[0], Tensor):
        raise TypeError(
            "Components should return one tensor where the allocation looks at examples, since "
            f"each example has weights of its own. Found {described(outputs[0])}."
        )


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
