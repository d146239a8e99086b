"""A run as it is read back, and its values from and to what JSON can hold."""

import math
import re
from dataclasses import dataclass, fields
from typing import Any

from numpy.typing import NDArray

from .._schema import Evaluation, Floats, LogEntry, Outcome, RunHeader
from ..settings import TrainingSettings, from_record
from ._environment import Environment
from ._files import floats, plain
from ._shapes import check_fields, check_header

_TUPLES = (
    *("task_names", "families", "layer_sizes", "component_names", "component_kinds"),
    "n_classes",
)


_FREE = ("command", "component_kinds", "n_parameters", "n_operations")


@dataclass(frozen=True, kw_only=True)
class Snapshots:
    """The gates' probabilities at some rounds of a run."""

    rounds: NDArray[Any]  # [m]
    probabilities: Floats  # [m, T, C]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A completed run: one that reached its end, or one that failed and says so."""

    header: RunHeader
    environment: Environment
    rounds: NDArray[Any]  # [n], rounds finished at each log entry
    losses: Floats  # [n, T], each task's mean training loss since the entry before
    share_active: Floats  # [n], 0 to 1
    validation: tuple[tuple[int, Evaluation], ...]  # (round, what the check found there)
    snapshots: Snapshots
    outcome: Outcome  # without the weights, which `read_weights` gives

    @property
    def finished(self) -> bool:
        """Whether the run reached its end with finite numbers."""
        return self.outcome.status == "finished"


def header_from(value: dict[str, Any]) -> RunHeader:
    """Returns the header that was written as ``value``; fields unknown here are left out.

    This is the one place that knows older records. Their settings come back in groups, and those
    that could not be chosen then have their defaults. Where kinds of components are missing they
    are read from the names: "conv3x3 A" was a conv3x3, and a letter alone said nothing.
    """
    known = _known(RunHeader, value)
    known |= {name: tuple(known[name]) for name in _TUPLES if name in known}
    if not known.get("component_kinds"):
        known["component_kinds"] = tuple(map(_kind_in, known["component_names"]))
    settings = known.get("settings", {})
    if "training" in settings:
        training = _filled(plain(TrainingSettings()), from_record(settings["training"]))
        if training["execution"]["trace"]:  # the default before there was None
            training["execution"] = training["execution"] | {"trace": None}
        known["settings"] = settings = settings | {"training": training}
    if "kind" in settings.get("allocation", {}):
        known["settings"] = settings | {"allocation": _allocation(settings["allocation"])}
    header = RunHeader(**known)
    check_header(header)
    return header


def _allocation(value: dict[str, Any]) -> dict[str, Any]:
    """Returns how tasks share, as it is written now: the class, and options that were chosen.

    Version 0.1 wrote `Gumbel`, and options that were left at their defaults too.
    """
    kind = {"Gumbel": "GumbelMatrix"}.get(value["kind"], value["kind"])
    defaults: dict[str, dict[str, Any]] = {
        "GumbelMatrix": {"p_init": 0.5},
        "SharedBottom": {"reduce": "sum"},
    }
    left = defaults.get(kind, {})
    own = {name: item for name, item in value.items() if name not in left or left[name] != item}
    return own | {"kind": kind}


def _kind_in(name: str) -> str:
    return "" if len(name) == 1 else re.sub(r" (\d+|[A-Z])$", "", name)


def _filled(defaults: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Returns ``values``, and at every depth the defaults of those that are missing."""
    both = {
        name: _filled(defaults[name], value)
        for name, value in values.items()
        if isinstance(value, dict) and isinstance(defaults.get(name), dict)
    }
    return {**defaults, **values, **both}


def environment_from(value: dict[str, Any]) -> Environment:
    """Returns the environment that was written as ``value``."""
    resumed = tuple(environment_from(part) for part in value.get("resumed", ()))
    known = _known(Environment, value) | {"resumed": resumed}
    if known.get("device") == "CPU, 1 threads":  # as 0.2.0 wrote it
        known["device"] = "CPU, 1 thread"
    environment = Environment(**known)
    check_fields(environment)
    return environment


def evaluation_from(value: dict[str, Any] | None) -> Evaluation | None:
    """Returns the evaluation that was written as ``value``, if there was one."""
    if value is None:
        return None
    accuracies = value["accuracies"]
    return Evaluation(
        split=value["split"],
        losses=floats(value["losses"]),
        accuracies=None if accuracies is None else floats(accuracies),
        metrics={name: floats(values) for name, values in value.get("metrics", {}).items()},
    )


def checks_from(entries: list[dict[str, Any]]) -> tuple[tuple[int, Evaluation], ...]:
    """Returns the validation checks among log entries, each with its round."""
    checks = [(entry["round"], evaluation_from(entry["validation"])) for entry in entries]
    return tuple((at, found) for at, found in checks if found is not None)


def entry_line(entry: LogEntry) -> dict[str, Any]:
    """Returns what `metrics.jsonl` holds of a log entry: everything except the probabilities."""
    line: dict[str, Any] = plain(entry)
    del line["probabilities"]
    return line


def summary_of(outcome: Outcome) -> dict[str, Any]:
    """Returns what `summary.json` holds of an outcome: everything except the weights."""
    names = [field.name for field in fields(outcome) if field.name != "weights"]
    return {name: plain(getattr(outcome, name)) for name in names}


def outcome_from(value: dict[str, Any]) -> Outcome:
    """Returns the outcome that was written as ``value``, without weights."""
    arrays: dict[str, Any] = {name: floats(value[name]) for name in ("matrix", "probabilities")}
    evaluations = {name: evaluation_from(value[name]) for name in ("validation", "test")}
    loss, n_used = value["final_loss"], value.get("n_used")
    arrays["n_used"] = None if n_used is None else floats(n_used)
    known = _known(Outcome, value) | arrays | evaluations
    return Outcome(**known | {"final_loss": math.nan if loss is None else loss, "weights": {}})


def first_difference(a: Any, b: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """Returns the first entry in which two JSON values differ: its name and both values.

    The command at the top may be another, and so may what older records lack: kinds and costs.

    >>> first_difference({"seed": 1, "settings": {"rounds": 5}}, {"seed": 1, "settings": {}})
    ('settings.rounds', 5, None)
    """
    if isinstance(a, dict) and isinstance(b, dict):
        for key in {**a, **b}:
            if name or key not in _FREE:
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
