"""Small records that stay with the source: many runs of one method in one JSON file."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._schema import Evaluation, Floats
from ._environment import Environment
from ._files import RecordError, file_name, floats, plain, read_json, reading, write_bytes, writing
from ._rates import KEPT as KEPT_RATES
from ._rates import keeping
from ._record import (
    RunRecord,
    Snapshots,
    checks_from,
    environment_from,
    first_difference,
    header_from,
    outcome_from,
    summary_of,
)
from ._shapes import check_entries, check_outcome, check_snapshots

_NO_RUNS = (
    "speed",
    "deploy",
    KEPT_RATES,
    "gpu_tests.json",
    "cpu_tests.json",
)  # folders of other records
_DIGITS = 6  # of a final number
_DIGITS_OVER_TIME = 4
_MAX_ENTRIES = 60
_MAX_NUMBERS = 480  # of one run's losses, so that forty tasks take no more room than eight
_MAX_GATES = 40_000  # of one run's gates over time; at least 24 entries stay


def keep(records: Sequence[RunRecord], folder: Path, *, with_curves: bool = True) -> list[Path]:
    """Adds runs to the kept results in ``folder`` and returns the files that now hold them.

    Each method under each condition has its file, ``folder/EXPERIMENT/CONDITION-METHOD.json``. A
    seed that is there already is replaced. Weights and most of the curves are left out: a curve
    has at most 60 entries of 4 digits. Of the allocations only the last remains, except for the
    first seed of a file that has them over time: its gates stay, in whole percent. Without curves
    only the ends of runs are kept.
    """
    if not with_curves:
        records = [_end_of(record) for record in records]
    new: dict[Path, list[RunRecord]] = defaultdict(list)
    for record in records:
        new[_kept_path(folder, record)].append(record)
    with keeping(folder):
        # May refuse, so all of it comes before the first file is written.
        contents = {path: _merged(path, runs) for path, runs in new.items()}
        for path, content in contents.items():
            with writing(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, content.encode())
    return sorted(contents)


def _end_of(record: RunRecord) -> RunRecord:
    """Returns a run without what was seen on the way."""
    last = slice(-1, None)
    return replace(
        record,
        rounds=record.rounds[last],
        losses=record.losses[last],
        share_active=record.share_active[last],
        validation=(),
        snapshots=Snapshots(
            rounds=record.snapshots.rounds[last],
            probabilities=record.snapshots.probabilities[last],
        ),
    )


def read_kept(folder: Path) -> list[RunRecord]:
    """Returns the kept runs beneath ``folder``, in name order and then by seed."""
    if not folder.is_dir():
        raise RecordError(f"Kept runs should be read from a folder that exists. Found `{folder}`.")
    others = {folder / name for name in _NO_RUNS}
    paths = sorted(p for p in folder.rglob("*.json") if not others & {p, *p.parents})
    return [run for path in paths for run in _read_file(path)]


def _kept_path(folder: Path, record: RunRecord) -> Path:
    header = record.header
    name = "-".join(file_name(part) for part in (header.condition, header.method) if part)
    return folder / file_name(header.experiment) / f"{name}.json"


def _merged(path: Path, records: Sequence[RunRecord]) -> str:
    """Returns the content of the file at ``path`` once ``records`` are in it."""
    before = _read_file(path) if path.exists() else []
    by_seed = {record.header.seed: record for record in [*before, *records]}
    runs = [by_seed[seed] for seed in sorted(by_seed)]
    headers = [_shared_header(run) for run in runs]
    for run, header in zip(runs, headers, strict=True):
        different = first_difference(headers[0], header)
        if different:
            name, first, own = different
            raise RecordError(
                f"Runs kept in one file should share their settings. Found `{name} = {own!r}` in "
                f"seed {run.header.seed} and {first!r} in seed {runs[0].header.seed} for `{path}`"
                + ("; remove that file to begin anew." if before else ".")
            )
    return _text(headers[-1], runs)  # the newest seed's: an older record may have made-up kinds


def _shared_header(record: RunRecord) -> dict[str, Any]:
    """Returns what all runs of a file have in common."""
    header: dict[str, Any] = plain(record.header)
    return {name: value for name, value in header.items() if name not in ("seed", "command")}


def _text(header: dict[str, Any], records: Sequence[RunRecord]) -> str:
    """Returns the file's text, with a line for each launch and each run."""
    launches: list[dict[str, Any]] = []
    places: dict[tuple[str, Environment], int] = {}
    lines: list[dict[str, Any]] = []
    shown = next((place for place, run in enumerate(records) if _moves(run)), None)
    for place, record in enumerate(records):
        command = record.header.command
        launch = (command, replace(record.environment, started=""))
        if launch not in places:
            places[launch] = len(launches)
            launches.append({"command": command, "environment": plain(record.environment)})
        lines.append(_run_line(record, places[launch]))
        if place == shown:
            lines[-1]["gates"] = _thin_gates(record.snapshots)
    parts = [f' "header": {_dumps(header)}']
    parts += [
        f' "{name}": [\n' + ",\n".join(f"  {_dumps(item)}" for item in items) + "\n ]"
        for name, items in (("launches", launches), ("runs", lines))
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _dumps(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _run_line(record: RunRecord, launch: int) -> dict[str, Any]:
    """Returns what is kept of one run; gates as one digit and percentages as whole numbers."""
    outcome = record.outcome
    rows = ["".join("1" if gate else "0" for gate in row) for row in outcome.matrix]
    final = {
        **summary_of(outcome),
        "seconds": _rounded(outcome.seconds),
        "final_loss": _rounded(outcome.final_loss),
        "matrix": rows if record.header.is_binary else _rounded(outcome.matrix),
        "probabilities": [_percentages(row) for row in outcome.probabilities],
        "validation": _short(outcome.validation),
        "test": _short(outcome.test),
    }
    checks = [
        {"round": at, **plain(_short(found, _DIGITS_OVER_TIME))}
        for at, found in _thin_checks(record)
    ]
    line = {"seed": record.header.seed, "launch": launch, **final, "curve": _thin_curve(record)}
    return line | ({"checks": checks} if checks else {})


def _thin_curve(record: RunRecord) -> dict[str, Any]:
    """Returns rounds, losses and share active of a run in no more than 60 entries.

    Neighbouring entries become one: the mean of their losses, each counted with its number of
    rounds, so that a loss is still the mean over the rounds since the entry before.
    """
    n_entries = min(_MAX_ENTRIES, max(8, _MAX_NUMBERS // len(record.header.task_names)))
    ends = _evenly(len(record.rounds), n_entries)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lengths = np.maximum(np.diff(record.rounds, prepend=0), 1)  # a first check may be at round 0
    losses = [
        np.average(record.losses[start : end + 1], axis=0, weights=lengths[start : end + 1])
        for start, end in zip(starts, ends, strict=True)
    ]
    return {
        "rounds": plain(record.rounds[ends]),
        "losses": _rounded(losses, _DIGITS_OVER_TIME),
        "share_active": _rounded(record.share_active[ends], _DIGITS_OVER_TIME),
    }


def _thin_checks(record: RunRecord) -> list[tuple[int, Evaluation]]:
    """Returns a run's validation checks, no more than 60 and the last among them."""
    n_checks = min(_MAX_ENTRIES, max(16, 2 * _MAX_NUMBERS // len(record.header.task_names)))
    return [record.validation[place] for place in _evenly(len(record.validation), n_checks)]


def _thin_gates(snapshots: Snapshots) -> dict[str, Any]:
    """Returns gates over time at no more than 60 rounds, fewer where there are many gates."""
    n, *shape = snapshots.probabilities.shape
    n_entries = min(_MAX_ENTRIES, max(24, _MAX_GATES // max(1, int(np.prod(shape)))))
    places = _evenly(n, n_entries)
    gates = snapshots.probabilities[places]
    return {
        "rounds": plain(snapshots.rounds[places]),
        "probabilities": [[_percentages(row) for row in each] for each in gates],
    }


def _evenly(n: int, n_chosen: int) -> NDArray[np.int64]:
    """Returns at most ``n_chosen`` of ``n`` places, evenly and the last among them."""
    step = max(1, -(-n // n_chosen))
    return np.arange(n - 1, -1, -step)[::-1]


def _rounded(values: Floats | list[Floats] | float, digits: int = _DIGITS) -> Any:
    """Returns numbers to this many significant digits, in JSON's own types."""
    shortened = [float(f"{value:.{digits}g}") for value in np.ravel(values)]
    return plain(np.reshape(shortened, np.shape(values)))


def _moves(record: RunRecord) -> bool:
    """Returns whether the gates of a run that reached its end change over time."""
    gates = record.snapshots.probabilities
    return record.finished and len(gates) > 1 and bool(np.ptp(gates, axis=0).any())


def _percentages(row: Any) -> str:
    return " ".join("nan" if np.isnan(value) else f"{100 * value:.0f}" for value in row)


def _short(evaluation: Evaluation | None, digits: int = _DIGITS) -> dict[str, Any] | None:
    if evaluation is None:
        return None
    accuracies = evaluation.accuracies
    metrics = {name: _rounded(values, digits) for name, values in evaluation.metrics.items()}
    return {
        "split": evaluation.split,
        "losses": _rounded(evaluation.losses, digits),
        "accuracies": None if accuracies is None else _rounded(accuracies, digits),
        **({"metrics": metrics} if metrics else {}),
    }


def _read_file(path: Path) -> list[RunRecord]:
    content = read_json(path)
    with reading(path):
        return [_record_from(run, content) for run in content["runs"]]


def _record_from(run: dict[str, Any], content: dict[str, Any]) -> RunRecord:
    launch = content["launches"][run["launch"]]
    named = {"seed": run["seed"], "command": launch["command"]}
    header = header_from(content["header"] | named)
    matrix = [list(row) for row in run["matrix"]]  # of digits, or of shares
    probabilities = _shares(run["probabilities"])
    outcome = outcome_from(run | {"matrix": matrix, "probabilities": probabilities})
    curve = run["curve"]
    last = {"rounds": [outcome.rounds], "probabilities": [run["probabilities"]]}
    gates = run.get("gates", last)
    checks = run.get("checks", run.get("looks", []))  # their name in version 0.1
    record = RunRecord(
        header=header,
        environment=environment_from(launch["environment"]),
        rounds=np.array(curve["rounds"], dtype=np.int64),
        losses=floats(curve["losses"]).reshape(-1, len(header.task_names)),
        share_active=floats(curve["share_active"]),
        validation=checks_from([{**check, "validation": check} for check in checks]),
        snapshots=Snapshots(
            rounds=np.array(gates["rounds"], dtype=np.int64),
            probabilities=np.stack([_shares(rows) for rows in gates["probabilities"]]),
        ),
        outcome=outcome,
    )
    check_entries(curve["rounds"])
    check_outcome(record)
    check_snapshots(record)
    return record


def _shares(rows: list[str]) -> Floats:
    """Returns what ``_percentages`` wrote, from 0 to 1."""
    return np.array([[float(part) / 100 for part in row.split()] for row in rows])
