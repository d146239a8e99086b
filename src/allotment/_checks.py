"""Checks of single values, worded alike everywhere: the rule first, then what was found."""

from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from dataclasses import fields
from difflib import get_close_matches
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

_WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}


_MOST = 3.4e38  # what single precision can hold


def first_line(error: BaseException) -> str:
    """Returns what an error says in its first line, or what it is where it says nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def nearest(value: object, choices: Iterable[str], shown: Mapping[str, str] | None = None) -> str:
    """Returns the question which of ``choices`` was meant, to stand at the end of an error.

    It is empty where none is near. ``shown`` has other names for choices, to be asked with.

    >>> nearest("gumble", ["gumbel", "no_sharing"])
    " Did you mean 'gumbel'?"
    """
    found = get_close_matches(str(value), list(choices), n=2)
    names = [(shown or {}).get(choice, choice) for choice in found]
    return f" Did you mean {' or '.join(map(repr, names))}?" if names else ""


def is_list_of(value: object, kind: type) -> bool:
    """Tells whether ``value`` is a list, or the like of one, of values of one kind."""
    if not isinstance(value, Sized) or not isinstance(value, Iterable):
        return False
    if isinstance(value, Mapping | Set):  # neither has an order
        return False
    if hasattr(value, "ndim") and (value.ndim != 1 or len(value) == 0):
        return False
    return all(isinstance(item, kind) for item in value)


def numbers(name: str, value: Any) -> NDArray[np.float64]:
    """Returns real numbers in any form as an array, tensors that learn among them."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        found = np.asarray(value)
        if value is None or found.dtype.kind not in "biuf":
            raise TypeError
        return found.astype(np.float64)
    except Exception as error:  # whatever an object raises that is no array
        raise TypeError(
            f"`{name}` should be an array of numbers. Found {described(value)}."
        ) from error


def described(value: object) -> str:
    """Returns what a value is, for an error: a list by its items, a class by its name.

    >>> described([1, 2, "a"]), described(int), described({}), described(0.5)
    ('a list of int, str', 'the class int', 'a dict', 'a float')
    """
    if isinstance(value, type) or value is None:
        return "None" if value is None else f"the class {value.__name__}"
    kind = type(value).__name__
    if not isinstance(value, list | tuple) or not value:
        return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
    kinds = [f"class {i.__name__}" if isinstance(i, type) else type(i).__name__ for i in value]
    return f"a {kind} of {', '.join(dict.fromkeys(kinds))}"


def check_whole(name: str, value: object) -> None:
    """Raises unless ``value`` is a whole number, of Python's or of NumPy's."""
    _check_kind(name, value, (int,))


def check_number(name: str, value: object) -> None:
    """Raises unless ``value`` is a number, of Python's or of NumPy's."""
    _check_kind(name, value, (float,))


def check_truth(name: str, value: object, *, or_none: bool = False) -> None:
    """Raises unless ``value`` is True or False, or None where that is meant too."""
    _check_kind(name, value, (bool, NoneType) if or_none else (bool,))


def check_field_types(settings: Any, *, leaving_out: Sequence[str] = ()) -> None:
    """Raises unless each field of a dataclass has a value of the type it declares.

    Those are numbers, truth values, texts, and None beside them.
    """
    kinds = get_type_hints(type(settings))
    for field in fields(settings):
        if field.name in leaving_out:
            continue
        kind = kinds[field.name]
        union = get_args(kind) if get_origin(kind) is UnionType else (kind,)
        value = getattr(settings, field.name)
        _check_kind(field.name, value, union)
        if isinstance(value, Real) and abs(float(value)) > _MOST:  # NaN is out of every range
            raise ValueError(
                f"`{field.name}` should be a finite number, as single precision has them. "
                f"Found `{field.name} = {value}`."
            )


def _check_kind(name: str, value: object, kinds: tuple[Any, ...]) -> None:
    is_truth = isinstance(value, bool)
    wider = {int: Integral, float: Real}
    for kind in kinds:
        if isinstance(value, wider.get(kind, kind)) and is_truth == (kind is bool):
            return
    words = [_WORDS[kind] for kind in kinds if kind is not NoneType]
    rule = " or ".join([*words, "None"] if NoneType in kinds else words)
    raise TypeError(f"`{name}` should be {rule}. Found `{name} = {value!r}`.")


def check_fraction(name: str, value: float) -> None:
    """Raises unless ``value`` lies in (0, 1]."""
    check_number(name, value)
    if not 0.0 < value <= 1.0:
        raise ValueError(f"`{name}` should be in (0, 1]. Found `{name} = {value}`.")


def check_share(name: str, value: float) -> None:
    """Raises unless ``value`` lies in [0, 1)."""
    check_number(name, value)
    if not 0.0 <= value < 1.0:
        raise ValueError(f"`{name}` should be in [0, 1). Found `{name} = {value}`.")


def check_probability(name: str, value: float) -> None:
    """Raises unless ``value`` lies strictly between 0 and 1."""
    check_number(name, value)
    if not 0.0 < value < 1.0:
        raise ValueError(f"`{name}` should be strictly between 0 and 1. Found `{name} = {value}`.")


def check_at_least(name: str, value: float, minimum: float) -> None:
    """Raises unless ``value`` is ``minimum`` or more."""
    check_number(name, value)
    if not value >= minimum:
        raise ValueError(f"`{name}` should be at least {minimum}. Found `{name} = {value}`.")


def check_count(name: str, value: int, minimum: int = 1) -> None:
    """Raises unless ``value`` is a whole number, ``minimum`` or more, that a size can be."""
    check_whole(name, value)
    check_at_least(name, value, minimum)
    if value >= 2**31:
        raise ValueError(f"`{name}` should be below 2**31. Found `{name} = {value}`.")


def check_positive(name: str, value: float) -> None:
    """Raises unless ``value`` is above zero."""
    check_number(name, value)
    if not value > 0:
        raise ValueError(f"`{name}` should be above 0. Found `{name} = {value}`.")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises unless ``value`` is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(
            f"`{name}` should be one of {known}. Found `{name} = {value!r}`."
            + nearest(value, choices)
        )
