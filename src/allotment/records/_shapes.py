"""What a record has to be before anything is computed from it: types, shapes, and an order."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from .._checks import described
from .._schema import MEASURES, Evaluation, RunHeader

if TYPE_CHECKING:
    from ._record import RunRecord

# What values of a declared type are instances of, where that is not the type itself.
_INSTANCES: dict[Any, Any] = {Any: object, None: NoneType, float: int | float}


def check_fields(value: Any) -> None:
    """Raises unless each field of a dataclass has a value of the type that it declares."""
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    check_types(values, get_type_hints(type(value)))


def check_types(values: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raises unless each value has the type that stands under its name, if one does."""
    for name, value in values.items():
        if name in kinds and not _fits(value, kinds[name]):
            raise TypeError(f"`{name}` should not be {described(value)}")


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return any(_fits(value, each) for each in inner)
    if not isinstance(value, origin or _INSTANCES.get(kind, kind)):
        return False
    if isinstance(value, bool):
        return kind not in (int, float)
    if origin is dict:
        return _all_fit(value, inner[0]) and _all_fit(value.values(), inner[1])
    return origin not in (tuple, list) or _all_fit(value, inner[0])


def _all_fit(values: Iterable[Any], kind: Any) -> bool:
    return all(_fits(value, kind) for value in values)


def check_header(header: RunHeader) -> None:
    """Raises unless a header's parts have the right types and go with each other."""
    check_fields(header)
    n_tasks, n_components = len(header.task_names), len(header.component_names)
    sizes, tasks, components = header.layer_sizes, f"{n_tasks} tasks", f"{n_components} components"
    _require(0 < len(set(header.task_names)) == n_tasks, "`task_names` should be different names")
    for name in ("families", "n_classes"):
        n_given = len(getattr(header, name))
        _require(n_given in (0, n_tasks), f"`{name}` should be one for each of {tasks}")
    adds_up = min(sizes, default=0) >= 0 and sum(sizes) == n_components
    _require(adds_up, f"`layer_sizes` should add up to {components}")
    n_kinds = len(header.component_kinds)
    _require(n_kinds == n_components, f"`component_kinds` should be one for each of {components}")
    can_be = min(header.n_classes, default=1) >= 1 and header.seed >= 0
    _require(
        header.measure in MEASURES and can_be,
        "`measure`, `n_classes` or `seed` is none that there can be",
    )


def _require(is_kept: bool, rule: str) -> None:
    if not is_kept:
        raise ValueError(rule)


def check_entries(rounds: Any) -> None:
    """Raises unless rounds of log entries are whole numbers in order."""
    if any(not isinstance(at, int) or isinstance(at, bool) for at in rounds):
        raise TypeError("`round` should be a whole number")
    if any(not 0 <= a <= b < 2**62 for a, b in zip([0, *rounds], rounds, strict=False)):
        raise ValueError("`round` should not fall")


def check_outcome(record: "RunRecord") -> None:
    """Raises unless what came of a run is of as many tasks and components as its header says."""
    outcome, header = record.outcome, record.header
    check_fields(outcome)
    if outcome.status not in ("finished", "failed") or outcome.rounds < 0:
        raise ValueError("`status` or `rounds` is none that there can be")
    shape = (len(header.task_names), len(header.component_names))
    for name in ("matrix", "probabilities"):
        _check_shape(name, getattr(outcome, name), shape)
    if outcome.n_used is not None:
        _check_shape("n_used", outcome.n_used, shape[:1])
    for seen in (outcome.validation, outcome.test):
        check_evaluation(seen, shape[0])


def check_evaluation(seen: Evaluation | None, n_tasks: int) -> None:
    """Raises unless an evaluation is one of so many tasks."""
    if seen is None:
        return
    check_fields(seen)
    arrays = {"losses": seen.losses, **seen.metrics}
    if seen.accuracies is not None:
        arrays["accuracies"] = seen.accuracies
    for name, values in arrays.items():
        _check_shape(name, values, (n_tasks,))


def check_snapshots(record: "RunRecord") -> None:
    """Raises unless the gates over time are those of as many tasks and components."""
    found, header = record.snapshots, record.header
    if found.rounds.dtype.kind != "i" or found.probabilities.dtype.kind != "f":
        raise TypeError("`rounds` and `probabilities` should be numbers")
    shape = (len(found.rounds), len(header.task_names), len(header.component_names))
    _check_shape("probabilities", found.probabilities, shape)


def _check_shape(name: str, values: Any, shape: tuple[int, ...]) -> None:
    found = np.shape(values)
    _require(found == shape, f"`{name}` should have the shape {shape}, not {found}")
