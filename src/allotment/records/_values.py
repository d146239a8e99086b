"""The values of training, from and to what JSON can hold."""

from dataclasses import fields
from typing import Any

from .._schema import Evaluation, Outcome, LogEntry, RunHeader

from ._environment import Environment
from ._files import floats, number, plain

_TUPLES = ("task_names", "families", "layer_sizes", "component_names", "n_classes")


def header_from(value: dict[str, Any]) -> RunHeader:
    """Returns the header that was written as ``value``; fields unknown here are left out."""
    known = _known(RunHeader, value)
    return RunHeader(**known | {name: tuple(known[name]) for name in _TUPLES if name in known})


def environment_from(value: dict[str, Any]) -> Environment:
    """Returns the environment that was written as ``value``."""
    resumed = tuple(environment_from(part) for part in value.get("resumed", ()))
    return Environment(**_known(Environment, value) | {"resumed": resumed})


def evaluation_from(value: dict[str, Any] | None) -> Evaluation | None:
    """Returns the evaluation that was written as ``value``, if there was one."""
    if value is None:
        return None
    accuracies = value["accuracies"]
    return Evaluation(
        split=value["split"],
        losses=floats(value["losses"]),
        accuracies=None if accuracies is None else floats(accuracies),
    )


def point_line(point: LogEntry) -> dict[str, Any]:
    """Returns what `metrics.jsonl` holds of a point: everything except the probabilities."""
    line: dict[str, Any] = plain(point)
    del line["probabilities"]
    return line


def summary_of(outcome: Outcome) -> dict[str, Any]:
    """Returns what `summary.json` holds of an outcome: everything except the weights."""
    names = [field.name for field in fields(outcome) if field.name != "weights"]
    return {name: plain(getattr(outcome, name)) for name in names}


def outcome_from(value: dict[str, Any]) -> Outcome:
    """Returns the outcome that was written as ``value``, without weights."""
    arrays = {name: floats(value[name]) for name in ("matrix", "probabilities")}
    evaluations = {name: evaluation_from(value[name]) for name in ("validation", "test")}
    final_loss = number(value["final_loss"])
    known = _known(Outcome, value) | arrays | evaluations
    return Outcome(**known | {"final_loss": final_loss, "weights": {}})


def first_difference(a: Any, b: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """Returns the first entry in which two JSON values differ: its name and both values.

    The command at the top may be another.

    >>> first_difference({"seed": 1, "settings": {"rounds": 5}}, {"seed": 1, "settings": {}})
    ('settings.rounds', 5, None)
    """
    if isinstance(a, dict) and isinstance(b, dict):
        for key in {**a, **b}:
            if name or key != "command":
                here = f"{name}.{key}" if name else key
                different = first_difference(a.get(key), b.get(key), here)
                if different:
                    return different
        return None
    return None if a == b else (name, a, b)


def _known(kind: type[Any], value: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries of ``value`` that are fields of the dataclass ``kind``."""
    names = {field.name for field in fields(kind)}
    return {name: item for name, item in value.items() if name in names}
