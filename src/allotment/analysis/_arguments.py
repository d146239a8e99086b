"""Checks of what the functions of this folder are given: runs, and arrays of numbers."""

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .._checks import described, is_list_of, numbers
from .._schema import Floats
from ..records import RunRecord

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def of_runs(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Has a function refuse arguments named ``record`` or ``records`` that are no runs."""
    parameters = signature(function)

    @wraps(function)
    def checked(*arguments: _Given.args, **named: _Given.kwargs) -> _Result:
        for name, value in parameters.bind(*arguments, **named).arguments.items():
            if name == "record" and not isinstance(value, RunRecord):
                raise TypeError(f"`record` should be a RunRecord. Found {described(value)}.")
            if name.startswith("records") and not is_list_of(value, RunRecord):
                raise TypeError(
                    f"`{name}` should be a list of RunRecord. Found {described(value)}."
                )
        return function(*arguments, **named)

    return checked


def check_groups(groups: object) -> None:
    """Raises unless groups of tasks are lists of names, by a group's name."""
    if not isinstance(groups, Mapping) or not all(map(_are_names, groups.values())):
        raise TypeError(
            f"`groups` should be a dict of lists of task names. Found {described(groups)}."
        )


def _are_names(members: object) -> bool:
    return isinstance(members, Collection) and all(isinstance(name, str) for name in members)


def as_rows(embeddings: ArrayLike) -> Floats:
    """Returns embeddings as an array ``[T, C]``."""
    rows = numbers("embeddings", embeddings)
    if rows.ndim != 2 or not len(rows):
        raise ValueError(f"`embeddings` should be of shape [T, C]. Found shape {list(rows.shape)}.")
    return rows


def as_similarity(similarity: Any) -> Floats:
    """Returns similarities of tasks as an array ``[T, T]``."""
    found = numbers("similarity", similarity)
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not len(found):
        raise ValueError(
            f"`similarity` should be of shape [T, T]. Found shape {list(found.shape)}."
        )
    if not np.isfinite(found).all():
        raise ValueError("`similarity` should be finite. Found entries that are not.")
    return found
