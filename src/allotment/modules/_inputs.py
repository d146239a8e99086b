"""Inputs of several tensors, given on as the arguments that a module takes."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from torch import nn


def call_with(module: nn.Module, x: Any, *arguments: Any, **options: Any) -> Any:
    """Calls a module with an input: a dict gives arguments by name, a tuple several of them.

    Where ``forward`` does not take those, they are one argument, as a named tuple always is.
    """
    if isinstance(x, Mapping) and _takes(module, *arguments, **x, **options):
        return module(*arguments, **x, **options)
    if type(x) is tuple and _takes(module, *x, *arguments, **options):
        return module(*x, *arguments, **options)
    return module(x, *arguments, **options)


def _takes(module: nn.Module, *arguments: Any, **options: Any) -> bool:
    while hasattr(module, "passes_to"):  # what it is given on to decides
        module = module.passes_to  # type: ignore[assignment]
    try:
        signature(module.forward).bind(*arguments, **options)
    except TypeError:
        return False
    return True
