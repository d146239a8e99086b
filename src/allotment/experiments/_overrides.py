"""Settings changed by name, as text from the command line."""

from collections.abc import Sequence
from dataclasses import fields, replace
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .._checks import nearest
from ..settings import GROUPS, group_of, setting_names
from ._experiment import Experiment
from ._methods import Method

PREFIXES = ("training", "allocation", *(name for name, _ in GROUPS))


def overridden(experiment: Experiment, assignments: Sequence[str]) -> Experiment:
    """Returns the experiment with ``field=value`` settings in place of the declared ones.

    A field is named ``training.batch_size``, or ``batch_size`` for short; ``allocation.p_init``
    changes every method that has it.
    """
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator:
            raise ValueError(f"A setting should be given as field=value. Found {assignment!r}.")
        prefix, _, field = name.rpartition(".")
        if prefix not in ("", *PREFIXES):
            raise ValueError(
                f"A setting should start with training. or allocation. Found {name!r}."
                + nearest(prefix, PREFIXES)
            )
        _check_known(experiment, prefix, field)
        if prefix == "allocation":
            experiment = replace(experiment, methods=_changed(experiment.methods, field, text))
        else:
            group = group_of(field)
            settings = getattr(experiment.training, group) if group else experiment.training
            training = experiment.training.changed(**_parsed(settings, field, text))
            experiment = replace(experiment, training=training)
    return experiment


def check_free(assignments: Sequence[str], methods: Sequence[Method]) -> None:
    """Raises where a setting is given of which one of the methods has a value of its own."""
    given = {assignment.partition("=")[0].rpartition(".")[2] for assignment in assignments}
    for method in methods:
        for field, value in method.training.items():
            if field in given:
                raise ValueError(
                    f"`{field}` should be given for methods that have no value of their own. "
                    f"Found the method {method.name!r} with `{field} = {value!r}`; others can be "
                    "named with --method."
                )


def _check_known(experiment: Experiment, prefix: str, field: str) -> None:
    """Raises unless there is a setting of this name; one with another prefix may be meant."""
    training = setting_names()
    allocation = sorted({f.name for m in experiment.methods for f in fields(m.allocation)})
    known, title = (
        (allocation, "An allocation's settings")
        if prefix == "allocation"
        else (training, "The settings")
    )
    if field in known:
        return
    full = {name: f"training.{name}" if prefix else name for name in training}
    full |= {name: f"allocation.{name}" for name in allocation}
    raise ValueError(
        f"{title} are {', '.join(known)}. Found {field!r}." + nearest(field, full, full)
    )


def _changed(methods: tuple[Method, ...], field: str, text: str) -> tuple[Method, ...]:
    return tuple(
        replace(
            method,
            allocation=replace(method.allocation, **_parsed(method.allocation, field, text)),
        )
        if field in {f.name for f in fields(method.allocation)}
        else method
        for method in methods
    )


def _parsed(settings: Any, field: str, text: str) -> dict[str, Any]:
    return {field: parse_value(field, text, get_type_hints(type(settings))[field])}


def parse_value(name: str, text: str, kind: Any) -> Any:
    """Returns ``text`` as a value of a field's type: a number, a truth value, a word or None."""
    kinds = get_args(kind) if get_origin(kind) in (UnionType,) else (kind,)
    if text.lower() == "none" and NoneType in kinds:
        return None
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        if number in kinds:
            try:
                return number(text.replace("_", ""))
            except ValueError:
                continue
    if str in kinds:
        return text
    expected = " or ".join(k.__name__.replace("NoneType", "none") for k in kinds)
    raise ValueError(f"`{name}` should be of type {expected}. Found {text!r}.")
