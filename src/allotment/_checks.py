"""Checks of single values, worded alike everywhere: the rule first, then what was found."""

from collections.abc import Sequence


def first_line(error: Exception) -> str:
    """Returns what an error says in its first line, or what it is where it says nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def check_fraction(name: str, value: float) -> None:
    """Raises unless ``value`` lies in (0, 1]."""
    if not 0.0 < value <= 1.0:
        raise ValueError(f"`{name}` should be in (0, 1]. Found `{name} = {value}`.")


def check_probability(name: str, value: float) -> None:
    """Raises unless ``value`` lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"`{name}` should be strictly between 0 and 1. Found `{name} = {value}`.")


def check_at_least(name: str, value: float, minimum: float) -> None:
    """Raises unless ``value`` is ``minimum`` or more."""
    if not value >= minimum:
        raise ValueError(f"`{name}` should be at least {minimum}. Found `{name} = {value}`.")


def check_positive(name: str, value: float) -> None:
    """Raises unless ``value`` is above zero."""
    if not value > 0:
        raise ValueError(f"`{name}` should be above 0. Found `{name} = {value}`.")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises unless ``value`` is one of ``choices``."""
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` should be one of {known}. Found `{name} = {value!r}`.")
