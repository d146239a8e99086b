"""Settings changed by name, as text from the command line."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import Parameter
from types import NoneType
from typing import Any, NoReturn, get_args, get_type_hints

from .._checks import nearest
from ..settings import GROUPS, OLD_NAMES, TrainingSettings, group_of, setting_names
from ._experiment import Experiment
from ._methods import Method

_FROM_TEXT = (bool, int, float, str)
_WORDS = {"none": (NoneType, None), "true": (bool, True), "false": (bool, False)}


def overridden(experiment: Experiment, assignments: Sequence[str]) -> Experiment:
    """Returns the experiment with ``name=value`` settings in place of the declared ones.

    A setting has its group before its name, as in ``optimization.learning_rate``, or goes without;
    ``allocation.p_init`` changes every method whose allocation takes that option.

    >>> from allotment.paper import experiment_named
    >>> overridden(experiment_named("two_pairs"), ["batch_size=32"]).training.batch_size
    32

    Args:
        experiment: As it is declared.
        assignments: Settings as ``name=value``.
    """
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator:
            raise ValueError(f"A setting should be given as name=value. Found {assignment!r}.")
        prefix, _, short = name.removeprefix("training.").rpartition(".")
        if prefix == "allocation" and short in _options(experiment):
            methods = [_changed(method, short, text) for method in experiment.methods]
            experiment = replace(experiment, methods=methods)
        elif short in setting_names() and prefix in ("", group_of(short)):
            kind = dict(GROUPS).get(group_of(short), TrainingSettings)
            value = parse_value(short, text, get_type_hints(kind)[short])
            experiment = replace(experiment, training=experiment.training.changed(**{short: value}))
        else:
            _refuse(experiment, name)
    return experiment


def check_free(assignments: Sequence[str], methods: Sequence[Method]) -> None:
    """Raises where a setting is given of which one of the methods has a value of its own.

    >>> from allotment.paper import experiment_named
    >>> check_free(["batch_size=32"], experiment_named("two_pairs").methods)

    Args:
        assignments: Settings as ``name=value``.
        methods: Those that would train with them.
    """
    given = {assignment.partition("=")[0].rpartition(".")[2] for assignment in assignments}
    for method in methods:
        for name, value in method.training.items():
            if name in given:
                raise ValueError(
                    f"`{name}` should be given for methods that have no value of their own. "
                    f"Found the method {method.name!r} with `{name} = {value!r}`; others can be "
                    "named with --method."
                )


def parse_value(name: str, text: str, kind: Any) -> Any:
    """Returns ``text`` as a value of a setting's type: a number, a truth value, a word or None."""
    kinds = get_args(kind) or (kind,)
    kind_of_word, value = _WORDS.get(text.lower(), ("", None))
    if kind_of_word in kinds:
        return value
    for number in (int, float):
        if number in kinds:
            try:
                return number(text.replace("_", ""))
            except ValueError:
                continue
    if str in kinds:
        return text
    known = [k.__name__ for k in _FROM_TEXT if k in kinds] + ["none"] * (NoneType in kinds)
    raise ValueError(
        f"`{name}` should be of type {' or '.join(known)}. Found {text!r}."
        if set(known) - {"none"}
        else f"`{name}` should be set in Python, since no text can give it. Found {text!r}."
    )


def _options(experiment: Experiment) -> list[str]:
    """Returns the options that the allocations of an experiment take."""
    return sorted({name for method in experiment.methods for name in method.allocation.parameters})


def _changed(method: Method, option: str, text: str) -> Method:
    """Returns a method with another value for an option, if its allocation takes it."""
    parameter = method.allocation.parameters.get(option)
    if parameter is None:
        return method
    is_bare = parameter.annotation is Parameter.empty
    kind = type(parameter.default) if is_bare else parameter.annotation
    value = parse_value(option, text, kind)
    return replace(method, allocation=method.allocation.changed(**{option: value}))


def _refuse(experiment: Experiment, name: str) -> NoReturn:
    """Raises with all names that a setting can have, and the one that may be meant."""
    prefix, _, short = name.rpartition(".")
    full = {each: f"{group_of(each)}.{each}".lstrip(".") for each in setting_names()}
    options = {option: f"allocation.{option}" for option in _options(experiment)}
    shown = (full if prefix else {each: each for each in full}) | options
    new = OLD_NAMES.get(short)
    meant = f" Its name is {new!r} now." if new else nearest(short, shown, shown)
    known = ", ".join([*full, *options.values()])
    raise ValueError(f"The settings are {known}. Found {name!r}.{meant}")
