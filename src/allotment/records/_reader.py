"""Runs back from their folders."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load

from ._environment import Environment
from ._files import RecordError, floats, read_json, reading
from ._hashes import check_seal, read_line
from ._record import RunRecord, Snapshots, checks_from, environment_from, header_from, outcome_from
from ._shapes import check_entries, check_evaluation, check_outcome, check_snapshots


def read_run(folder: Path) -> RunRecord:
    """Returns the completed run in ``folder``."""
    if not (folder / "summary.json").is_file():
        raise RecordError(
            f"A completed run should have a `summary.json`. Found none in `{folder}`."
        )
    with reading(folder / "settings.json"):
        header = header_from(read_json(folder / "settings.json"))
    environment = read_environment(folder)
    metrics, summary = folder / "metrics.jsonl", folder / "summary.json"
    content = read_json(summary)
    check_seal(content, summary, "metrics.jsonl", "allocations.npz")
    with reading(summary):
        outcome = outcome_from(content)
    with reading(metrics):
        entries = read_entries(metrics)
        rounds = [entry["round"] for entry in entries]
        losses = floats([entry["losses"] for entry in entries])
        record = RunRecord(
            header=header,
            environment=environment,
            rounds=np.array(rounds, dtype=np.int64),
            losses=losses.reshape(len(rounds), len(header.task_names)),
            share_active=floats([entry["share_active"] for entry in entries]),
            validation=checks_from(entries),
            snapshots=read_snapshots(folder / "allocations.npz"),
            outcome=outcome,
        )
        check_entries(rounds)
        for _, seen in record.validation:
            check_evaluation(seen, len(header.task_names))
    with reading(summary):
        check_outcome(record)
    with reading(folder / "allocations.npz"):
        check_snapshots(record)
    return record


def read_runs(*roots: Path | str) -> list[RunRecord]:
    """Returns every completed run beneath the folders, each once, in name order."""
    folders = [Path(root) for root in roots]
    for folder in folders:
        _check_folder(folder)
    found = {path.resolve() for folder in folders for path in folder.rglob("summary.json")}
    return [read_run(path.parent) for path in sorted(found)]


def unfinished_runs(root: Path) -> list[Path]:
    """Returns the folders of runs beneath ``root`` that were stopped before their end."""
    _check_folder(root)
    folders = sorted(path.parent for path in root.rglob("settings.json"))
    return [folder for folder in folders if not (folder / "summary.json").is_file()]


def read_environment(folder: Path) -> Environment:
    """Returns where the run in ``folder`` took place."""
    with reading(folder / "environment.json"):
        return environment_from(read_json(folder / "environment.json"))


def read_weights(folder: Path) -> dict[str, Any]:
    """Returns the state dict of the network trained in the run in ``folder``, on the CPU."""
    path, summary = folder / "weights.safetensors", folder / "summary.json"
    check_seal(read_json(summary), summary, path.name)
    with reading(path):
        return dict(load(path.read_bytes()))


def read_entries(path: Path, n: int | None = None) -> list[dict[str, Any]]:
    """Returns the log entries of a run; one that failed before its first has none.

    ``n``: the first of them alone, since a run that was killed may have left part of a line.
    """
    lines = path.read_bytes().splitlines(True) if path.exists() else []
    return [read_line(line, number) for number, line in enumerate(lines[:n], start=1)]


def read_snapshots(path: Path) -> Snapshots:
    """Returns the gates over time that a run has written."""
    with reading(path):
        content = io.BytesIO(path.read_bytes())  # of a damaged file, NumPy leaves the handle open
        arrays = np.load(content, allow_pickle=False)
        return Snapshots(rounds=arrays["rounds"], probabilities=arrays["probabilities"])


def _check_folder(root: Path) -> None:
    if not root.is_dir():
        raise RecordError(f"Runs should be read from a folder that exists. Found `{root}`.")
