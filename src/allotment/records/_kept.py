"""Small records that stay with the source: many runs of one method in one JSON file."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .._schema import Evaluation, Floats

from ._environment import Environment
from ._errors import RecordError, reading, writing
from ._files import floats, plain, read_json, write_bytes
from ._record import RunRecord, Snapshots
from ._thin import rounded, thin, thin_gates, thin_looks
from ._values import (
    environment_from,
    evaluation_from,
    first_difference,
    header_from,
    outcome_from,
    summary_of,
)
from ._writer import file_name

_DIGITS = 6  # of a final number; a curve has fewer


def keep(
    records: Sequence[RunRecord], folder: Path, defaults: Mapping[str, Any] | None = None
) -> list[Path]:
    """Adds runs to the kept results in ``folder`` and returns the files that now hold them.

    Each method under each condition has its file, ``folder/EXPERIMENT/CONDITION-METHOD.json``. A
    seed that is there already is replaced. Weights and most of the curves are left out: a curve
    has at most 60 points of 4 digits. Of the allocations only the last remains, except for the
    first seed of a file that has them over time: its gates stay, in whole percent.

    ``defaults`` are training settings that stand for those a run lacks, since it was made before
    they could be chosen: it can then be kept beside later runs that left them alone.
    """
    new: dict[Path, list[RunRecord]] = defaultdict(list)
    for record in records:
        new[_kept_path(folder, record)].append(record)
    # May refuse, so all of it comes before the first file is written.
    contents = {path: _merged(path, runs, defaults or {}) for path, runs in new.items()}
    for path, content in contents.items():
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content.encode())
    return sorted(contents)


def read_kept(folder: Path) -> list[RunRecord]:
    """Returns the kept runs beneath ``folder``, in name order and then by seed."""
    if not folder.is_dir():
        raise RecordError(f"Kept runs should be read from a folder that exists. Found `{folder}`.")
    paths = sorted(p for p in folder.rglob("*.json") if folder / "speed" not in p.parents)
    return [run for path in paths for run in _read_file(path)]


def _kept_path(folder: Path, record: RunRecord) -> Path:
    header = record.header
    name = "-".join(file_name(part) for part in (header.condition, header.method) if part)
    return folder / file_name(header.experiment) / f"{name}.json"


def _merged(path: Path, records: Sequence[RunRecord], defaults: Mapping[str, Any]) -> str:
    """Returns the content of the file at ``path`` once ``records`` are in it."""
    before = _read_file(path) if path.exists() else []
    by_seed = {record.header.seed: record for record in [*before, *records]}
    runs = [by_seed[seed] for seed in sorted(by_seed)]
    shared = _shared_header(runs[0], defaults)
    for record in runs:
        different = first_difference(shared, _shared_header(record, defaults))
        if different:
            name, first, own = different
            seeds = (record.header.seed, runs[0].header.seed)
            raise RecordError(
                f"Runs kept in one file should share their settings. Found `{name} = {own!r}` in "
                f"seed {seeds[0]} and {first!r} in seed {seeds[1]} for `{path}`"
                + ("; remove that file to begin anew." if before else ".")
            )
    return _text(shared, runs)


def _shared_header(record: RunRecord, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what all runs of a file have in common."""
    header: dict[str, Any] = plain(record.header)
    settings = header["settings"]
    if "training" in settings:
        header["settings"] = settings | {"training": {**defaults, **settings["training"]}}
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
            lines[-1]["gates"] = _gates(thin_gates(record.snapshots))
    parts = [f' "header": {_dumps(header)}']
    parts += [
        f' "{name}": [\n' + ",\n".join(f"  {_dumps(item)}" for item in items) + "\n ]"
        for name, items in (("launches", launches), ("runs", lines))
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _dumps(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _run_line(record: RunRecord, launch: int) -> dict[str, Any]:
    """Returns what is kept of one run; gates as one letter and percentages as whole numbers."""
    outcome = record.outcome
    rounds, losses, share_active = thin(record)
    final = {
        **summary_of(outcome),
        "seconds": rounded(outcome.seconds, _DIGITS),
        "final_loss": rounded(outcome.final_loss, _DIGITS),
        "matrix": ["".join("1" if gate else "0" for gate in row) for row in outcome.matrix],
        "probabilities": [_percentages(row) for row in outcome.probabilities],
        "validation": _short(outcome.validation),
        "test": _short(outcome.test),
    }
    curve = {"rounds": rounds, "losses": losses, "share_active": share_active}
    looks = [{"round": at, **plain(_short(seen, 4))} for at, seen in thin_looks(record)]
    line = {"seed": record.header.seed, "launch": launch, **final, "curve": curve}
    return line | ({"looks": looks} if looks else {})


def _moves(record: RunRecord) -> bool:
    """Returns whether the gates of a run that reached its end change over time."""
    gates = record.snapshots.probabilities
    return record.finished and len(gates) > 1 and bool(np.ptp(gates, axis=0).any())


def _gates(snapshots: Snapshots) -> dict[str, Any]:
    return {
        "rounds": plain(snapshots.rounds),
        "probabilities": [[_percentages(row) for row in each] for each in snapshots.probabilities],
    }


def _percentages(row: Any) -> str:
    return " ".join("nan" if np.isnan(value) else f"{100 * value:.0f}" for value in row)


def _short(evaluation: Evaluation | None, digits: int = _DIGITS) -> dict[str, Any] | None:
    if evaluation is None:
        return None
    accuracies = evaluation.accuracies
    return {
        "split": evaluation.split,
        "losses": rounded(evaluation.losses, digits),
        "accuracies": None if accuracies is None else rounded(accuracies, digits),
    }


def _read_file(path: Path) -> list[RunRecord]:
    content = read_json(path)
    with reading(path):
        return [_record_from(run, content) for run in content["runs"]]


def _record_from(run: dict[str, Any], content: dict[str, Any]) -> RunRecord:
    launch = content["launches"][run["launch"]]
    named = {"seed": run["seed"], "command": launch["command"]}
    header = header_from(content["header"] | named)
    matrix = [[int(gate) for gate in row] for row in run["matrix"]]
    probabilities = _shares(run["probabilities"])
    outcome = outcome_from(run | {"matrix": matrix, "probabilities": probabilities})
    curve = run["curve"]
    last = {"rounds": [outcome.rounds], "probabilities": [run["probabilities"]]}
    gates = run.get("gates", last)
    return RunRecord(
        header=header,
        environment=environment_from(launch["environment"]),
        rounds=np.array(curve["rounds"], dtype=np.int64),
        losses=floats(curve["losses"]).reshape(-1, len(header.task_names)),
        share_active=floats(curve["share_active"]),
        validation=_looks_from(run.get("looks", [])),
        snapshots=Snapshots(
            rounds=np.array(gates["rounds"], dtype=np.int64),
            probabilities=np.stack([_shares(rows) for rows in gates["probabilities"]]),
        ),
        outcome=outcome,
    )


def _looks_from(looks: list[dict[str, Any]]) -> tuple[tuple[int, Evaluation], ...]:
    seen = [(look["round"], evaluation_from(look)) for look in looks]
    return tuple((at, evaluation) for at, evaluation in seen if evaluation is not None)


def _shares(rows: list[str]) -> Floats:
    """Returns what ``_percentages`` wrote, from 0 to 1."""
    return np.array([[float(part) / 100 for part in row.split()] for row in rows])
