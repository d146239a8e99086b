"""What the page to explore holds: choices, curves, costs and maps, as compact JSON."""

import base64
import json
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._schema import Floats, RunHeader
from ..analysis import (
    cluster,
    cosine_similarity,
    embeddings,
    error_curves,
    estimate,
    linkage,
    loss_band,
    measure,
    used_parameters,
    used_shares,
    validation_loss_curves,
)
from ..records import RunRecord
from ._section import ResultRow, Section
from ._tradeoff import points_of

_DIGITS = 5  # of a number, as it is shown
MAX_POINTS = 150  # of a curve
MAX_ROUNDS = 40  # at which a run's gates are shown, beside its end
_MAX_TASKS = 2000  # whose map is shown: the similarities of more take a browser seconds
_ROOM = 5_500_000  # characters for the maps of all runs, which leaves the page below 10 MB
_UNKNOWN = -32768  # in place of a probability that is not finite

_Entry = tuple[Section, RunRecord, dict[str, Any]]  # a run, and what the page has of it


def page_json(parts: Sequence[Section]) -> str:
    """Returns the data of the page as JSON that can stand inside a script element."""
    text = json.dumps(_page_data(parts), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate({ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def _page_data(parts: Sequence[Section]) -> dict[str, Any]:
    shown = [part for part in parts if part.own is None and part.ran]
    experiments = [_experiment(part) for part in shown]
    _add_maps(shown, experiments)
    return {"experiments": experiments}


def _experiment(part: Section) -> dict[str, Any]:
    suites: dict[tuple[Any, ...], int] = {}
    costs = {id(point.row): point for point in points_of(part)}
    methods = []
    for row in part.ran:
        point = costs.get(id(row))
        methods.append(
            {
                "name": row.name,
                "value": str(part.spec.shown(row.summary.measure)) if row.summary.measure.n else "",
                "point": None if point is None else [_spread(point.cost), _spread(point.value)],
                "chosen": point is not None and point.is_chosen,
                "loss": _loss(row, part.window),
                "checks": _checks(row),
                "typical": row.runs.index(row.typical) if row.typical else 0,
                "runs": [_run(part, run, suites) for run in row.runs],
            }
        )
    return {
        "title": part.spec.title,
        "measure": part.measure_label,
        "smoothing": part.smoothing,
        "counted": any(run.outcome.n_used is not None for run in part.records),
        "methods": methods,
        "suites": [_suite(header) for header in _first_headers(part, suites)],
    }


# What is chosen from, and the numbers beside it.


def _suite_key(header: RunHeader) -> tuple[Any, ...]:
    return (
        *(header.task_names, header.families, header.layer_sizes, header.component_names),
        header.is_binary,
    )


def _first_headers(part: Section, suites: dict[tuple[Any, ...], int]) -> list[RunHeader]:
    by_key = {_suite_key(run.header): run.header for run in part.records}
    return [by_key[key] for key in suites]


def _suite(header: RunHeader) -> dict[str, Any]:
    """Returns what runs of the same tasks and components have in common."""
    return {
        "tasks": header.task_names,
        "families": header.families,
        "layers": header.layer_sizes,
        "components": header.component_names,
        "binary": header.is_binary,
    }


def _run(part: Section, run: RunRecord, suites: dict[tuple[Any, ...], int]) -> dict[str, Any]:
    outcome = run.outcome
    is_measured = math.isfinite(measure(run))
    return {
        "seed": run.header.seed,
        "suite": suites.setdefault(_suite_key(run.header), len(suites)),
        "value": _number(part.spec.shown(estimate([measure(run)])).mean) if is_measured else None,
        "cost": _number(100 * float(used_parameters(run).mean())) if run.finished else None,
        "open": _number(100 * float(used_shares(run).mean())) if run.finished else None,
        "rounds": outcome.rounds,
        "best": outcome.best_round,
        "seconds": _number(outcome.seconds),
        "failed": not run.finished,
        "at": [],
    }


def _number(value: float) -> float | None:
    """Returns a number as it is shown, None where it is not finite."""
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _spread(value: Any) -> list[float | None]:
    """Returns a mean and the ends of its interval."""
    return [_number(value.mean), *map(_number, value.interval)]


def _loss(row: ResultRow, window: int) -> dict[str, Any] | None:
    band = loss_band(row.runs, window)
    return _curve(band.rounds, band.mean, band.low, band.high, band.n_runs)


def _checks(row: ResultRow) -> dict[str, Any] | None:
    """Returns the validation error in percent, or the loss where some task has no accuracy."""
    found, factor, label = error_curves(row.runs), 100.0, "Validation error, %"
    if not found.runs:
        found, factor, label = validation_loss_curves(row.runs), 1.0, "Validation loss"
    at = found.rounds
    values = [factor * each[np.isin(rounds, at)] for rounds, each in found.runs]
    spreads = [estimate(column) for column in zip(*values, strict=True)]
    ends = np.array([each.interval for each in spreads]).reshape(-1, 2)
    curve = _curve(at, factor * found.mean, ends[:, 0], ends[:, 1], len(values))
    return curve and {**curve, "label": label}


def _curve(at: Floats, mean: Floats, low: Floats, high: Floats, n: int) -> dict[str, Any] | None:
    """Returns a band at no more than 150 of its rounds, None where it has no two of them."""
    if len(at) < 2:
        return None
    places = _evenly(len(at), MAX_POINTS)
    lines = {
        name: [_number(float(values[place])) for place in places]
        for name, values in (("mean", mean), ("low", low), ("high", high))
    }
    return {"rounds": [int(at[place]) for place in places], **lines, "n": n}


def _evenly(n: int, n_chosen: int) -> NDArray[np.int64]:
    """Returns at most ``n_chosen`` of ``n`` places, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, n_chosen)).round().astype(np.int64))


# Maps, which take the room.


def _add_maps(parts: Sequence[Section], experiments: Sequence[dict[str, Any]]) -> None:
    """Adds what is drawn of each run, as long as there is room.

    The typical run of each method comes first, with its gates over time as far as they take no more
    than half of what is left; then the ends of all others, and at last their gates over time.
    """
    typical: list[_Entry] = []
    others: list[_Entry] = []
    for part, experiment in zip(parts, experiments, strict=True):
        for row, method in zip(part.ran, experiment["methods"], strict=True):
            for run, entry in zip(row.runs, method["runs"], strict=True):
                if run.finished and len(run.header.task_names) <= _MAX_TASKS:
                    (typical if run is row.typical else others).append((part, run, entry))
    room = _add_ends(typical, _ROOM)
    half = room // 2
    room -= half - _add_gates(typical, half)
    _add_gates(others, _add_ends(others, room))


def _add_ends(entries: Sequence[_Entry], room: int) -> int:
    """Adds the ends of runs until one has no room, and returns the room that is left."""
    for part, run, entry in entries:
        packed = _packed(_end(part, run))
        if len(packed) > room:
            return 0
        entry["end"] = packed
        room -= len(packed)
    return room


def _add_gates(entries: Sequence[_Entry], room: int) -> int:
    """Adds gates over time until those of a run have no room, and returns the room that is left."""
    for _, run, entry in entries:
        places = _evenly(len(run.snapshots.rounds), MAX_ROUNDS)
        gates = _percent(run.snapshots.probabilities[places])
        if "end" not in entry or len(gates) < 2 or not np.ptp(gates, axis=0).any():
            continue  # gates that are fixed, or were not recorded over time
        packed = _packed([np.diff(gates, axis=0, prepend=np.int16(0))])
        if len(packed) > room:
            break
        entry |= {"over_time": packed, "at": run.snapshots.rounds[places].tolist()}
        room -= len(packed)
    return room


def _end(part: Section, run: RunRecord) -> list[NDArray[Any]]:
    """Returns the arrays of a run's end, in the order in which the page reads them."""
    rows = embeddings(run)
    similarity = cosine_similarity(rows)
    tree = linkage(similarity)  # [T - 1, 4]
    return [
        tree[:, 2].astype("<f4"),
        _tested(part, run).astype("<f4"),
        tree[:, :2].astype("<u2"),
        np.array(cluster(similarity).labels, dtype="<u2"),
        np.rint(100 * used_shares(run)).astype("<u2"),
        _percent(run.outcome.probabilities),
        rows.astype("u1" if run.header.is_binary else "<f4"),
    ]


def _tested(part: Section, run: RunRecord) -> Floats:
    """Returns what each task reached on its test split, as it is shown; NaN where that is not."""
    test, kind = run.outcome.test, run.header.measure
    if test is not None and kind == "test_loss":
        return test.losses
    if test is not None and kind == "accuracy" and test.accuracies is not None:
        shown = 1.0 - test.accuracies if part.spec.shows_error else test.accuracies
        return part.spec.factor * shown
    return np.full(len(run.header.task_names), np.nan)


def _percent(probabilities: Floats) -> NDArray[np.int16]:
    """Returns probabilities, or shares, in whole percent."""
    known = np.where(np.isfinite(probabilities), np.rint(100 * probabilities), _UNKNOWN)
    return np.clip(known, _UNKNOWN, 32767).astype("<i2")


def _packed(arrays: Iterable[NDArray[Any]]) -> str:
    """Returns arrays one after another, deflated, in base64."""
    content = b"".join(np.ascontiguousarray(each).tobytes() for each in arrays)
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)  # without a head, as browsers read it
    return base64.b64encode(deflate.compress(content) + deflate.flush()).decode()
