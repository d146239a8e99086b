"""The weighted sum of components' outputs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._checks import described
from .._ops import mix
from ._structures import by_tensor


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
