"""A run's folder taken up again after its run was stopped."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._schema import RunHeader, TrainingState

from ._environment import Environment, describe_environment
from ._errors import RecordError, reading, writing
from ._files import plain, read_json, write_bytes, write_json
from ._reader import read_environment, read_snapshots
from ._values import first_difference
from ._writer import Earlier, RunWriter, run_folder


def check_same(folder: Path, header: RunHeader, *, any_rounds: bool = False) -> None:
    """Raises where ``folder`` holds a run with other settings; its command may be another.

    With ``any_rounds`` it may have been meant to be longer, or shorter.
    """
    path = folder / "settings.json"
    if not path.exists():
        return
    kept, now = read_json(path), plain(header)
    if any_rounds:
        for settings in (kept["settings"], now["settings"]):
            settings.get("training", {}).pop("rounds", None)
    different = first_difference(kept, now)
    if different:
        name, found, asked = different
        raise RecordError(
            f"A run that goes on should have the settings it began with. Found `{name} = {asked}` "
            f"for {found} in `{path}`."
        )


def rounds_of(folder: Path) -> int:
    """Returns how many rounds the run in ``folder`` had, which has its summary."""
    return int(read_json(folder / "summary.json")["rounds"])


def reopen_runs(
    out: Path,
    headers: Sequence[RunHeader],
    state: TrainingState | None,
    *,
    device: str = "cpu",
    deterministic: bool = False,
) -> list[RunWriter]:
    """Returns writers that go on after a state, or that start anew where there is none."""
    now = describe_environment(device, deterministic=deterministic)
    return [_reopened(run_folder(out, header), header, state, now) for header in headers]


def _reopened(
    folder: Path, header: RunHeader, state: TrainingState | None, now: Environment
) -> RunWriter:
    check_same(folder, header, any_rounds=True)  # whether they may be others is for the caller
    if (folder / "summary.json").exists():  # killed while the runs of a program were being closed
        return RunWriter(folder, header, earlier=Earlier(is_closed=True))
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for left in (folder / "interrupted.json", *folder.glob(".*.unfinished")):
            left.unlink(missing_ok=True)
    earlier = _points_until(folder, state) if state and state.n_entries else Earlier()
    _cut(folder / "metrics.jsonl", len(earlier.rounds))
    settings = folder / "settings.json"
    if not settings.exists() or first_difference(read_json(settings), plain(header)):
        write_json(settings, header)  # with other rounds, and the command that gives them
    environment = now
    if state is not None:
        first = read_environment(folder)
        resumed = (*first.resumed, replace(now, round=state.round))
        environment = replace(first, resumed=resumed)
    write_json(folder / "environment.json", environment)
    return RunWriter(folder, header, earlier=earlier)


def _points_until(folder: Path, state: TrainingState) -> Earlier:
    """Returns the points that were told before a state was taken."""
    rounds = [point["round"] for point in _whole_lines(folder / "metrics.jsonl")]
    snapshots = read_snapshots(folder / "allocations.npz")
    n = state.n_entries
    if len(rounds) < n or snapshots.rounds[:n].tolist() != rounds[:n]:
        raise RecordError(
            f"A run that goes on after round {state.round} should have {n} points in "
            f"`metrics.jsonl` and `allocations.npz`. Found others in `{folder}`."
        )
    return Earlier(rounds=rounds[:n], probabilities=list(snapshots.probabilities[:n]))


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """Returns what the lines of a file hold; the last one may have been cut off."""
    with reading(path):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(True) if line.endswith("\n")]


def _cut(path: Path, n_lines: int) -> None:
    """Leaves the first lines of a file."""
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(True)
    if n_lines == 0:
        path.unlink()
    elif len(lines) > n_lines:
        write_bytes(path, b"".join(lines[:n_lines]))
