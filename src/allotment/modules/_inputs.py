"""What a network is given: inputs of several tensors, and the index of a task."""

import operator
from collections.abc import Mapping
from inspect import signature
from typing import Any

from torch import Tensor, nn

from .._checks import described


def call_with(module: nn.Module, x: Any, *arguments: Any, **options: Any) -> Any:
    """Calls a module with an input: a dict gives arguments by name, a tuple several of them.

    Where ``forward`` does not take those, they are one argument, as a named tuple always is.
    """
    if isinstance(x, Mapping) and _takes(module, *arguments, **x, **options):
        return module(*arguments, **x, **options)
    if type(x) is tuple and _takes(module, *x, *arguments, **options):
        return module(*x, *arguments, **options)
    return module(x, *arguments, **options)


def as_index(task: object) -> int | Tensor:
    """Returns a task's index as a number, or as the tensor that it is; raises unless it is one."""
    if isinstance(task, Tensor):
        if task.numel() != 1 or task.is_floating_point() or task.is_complex():
            raise TypeError(
                "`task` should be one whole number where it is a tensor. Found shape "
                f"{list(task.shape)} of {str(task.dtype).removeprefix('torch.')}."
            )
        return task
    try:
        return operator.index(task)  # type: ignore[arg-type]  # NumPy's integers too
    except TypeError as error:
        raise TypeError(
            f"`task` should be a task's name or index. Found {described(task)}."
        ) from error


def attention_of(path: str) -> property:
    """Returns ``self_attn`` as a property: that of the submodule at ``path``.

    Torch's own encoders ask their first layer for it, whatever stands there.
    """
    return property(lambda module: module.get_submodule(path).self_attn)


def _takes(module: nn.Module, *arguments: Any, **options: Any) -> bool:
    while hasattr(module, "passes_to"):  # what it is given on to decides
        module = module.passes_to  # type: ignore[assignment]
    try:
        signature(module.forward).bind(*arguments, **options)
    except TypeError:
        return False
    return True
