"""A run's folder while the run goes on, and taken up again after the run was stopped."""

import io
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from .._schema import Floats, LogEntry, Outcome, RunHeader, TrainingState
from ._environment import Environment, describe_environment
from ._files import (
    RecordError,
    file_name,
    plain,
    read_json,
    reading,
    write_bytes,
    write_json,
    writing,
)
from ._hashes import checked_line, sealed
from ._reader import read_entries, read_environment, read_snapshots
from ._record import entry_line, first_difference, header_from, summary_of

_HASHED = ("metrics.jsonl", "allocations.npz", "weights.safetensors")  # in the summary


def run_folder(out: Path, header: RunHeader) -> Path:
    """Returns where a run is recorded: ``OUT/[condition/]method/seed-003``."""
    parts = [file_name(part) for part in (header.condition, header.method) if part]
    return out.joinpath(*parts, f"seed-{header.seed:03d}")


def check_new(folders: Iterable[Path]) -> None:
    """Raises where a run has been before; worth a call before the first of many runs is opened."""
    for folder in folders:
        if folder.exists() or folder.is_symlink():
            raise RecordError(
                f"A run's folder should be new. Found `{folder}`, {_state(folder)}. Choose another "
                "folder (`--out`; in Python `out=`), or go on with runs that were stopped there "
                "(`--resume`; in Python `resume=True`)."
            )


@dataclass(frozen=True)
class Earlier:
    """The log entries of a run before it was stopped."""

    rounds: list[int] = field(default_factory=list)
    probabilities: list[Floats] = field(default_factory=list)  # [T, C] each
    is_closed: bool = False  # whether there is nothing to add
    n_done: int = 0  # rounds


class RunWriter:
    """Writes one run into a folder that its summary closes.

    ``settings.json`` and ``environment.json`` are there from the start, ``metrics.jsonl`` grows by
    a line for each log entry, and ``close`` adds ``allocations.npz``, ``weights.safetensors`` and,
    last of all, ``summary.json``: a folder without it is a run that did not reach its end.

    Args:
        folder: Where to write; the folder should not exist yet, unless there are earlier entries.
        header: What is known of the run before its first step.
        environment: Where it runs; None: here, on the CPU.
        earlier: For a run that goes on in its folder (see ``reopen_runs``).
    """

    def __init__(
        self,
        folder: Path,
        header: RunHeader,
        environment: Environment | None = None,
        *,
        earlier: Earlier | None = None,
    ) -> None:
        self.folder = folder
        self.header = header
        self._rounds = list(earlier.rounds) if earlier else []
        self._probabilities = list(earlier.probabilities) if earlier else []
        self._open = earlier is None or not earlier.is_closed
        self._is_new = earlier is None
        self.n_done = earlier.n_done if earlier else 0  # rounds, also inside a logging interval
        if earlier is None:
            check_new([folder])
            with writing(folder):
                folder.mkdir(parents=True)
            write_json(folder / "settings.json", header)
            write_json(folder / "environment.json", environment or describe_environment("cpu"))

    def add(self, entry: LogEntry) -> None:
        """Appends an entry to the metrics; does nothing to a run that is closed."""
        if not self._open:
            return
        line = checked_line(entry_line(entry))
        path = self.folder / "metrics.jsonl"
        with writing(path), path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self._rounds.append(entry.round)
        self._probabilities.append(np.asarray(entry.probabilities, dtype=np.float32))

    def sync(self) -> None:
        """Waits until all entries so far are on the disk, for a checkpoint that counts on them."""
        metrics = self.folder / "metrics.jsonl"
        if not self._open or not metrics.exists():
            return
        with writing(metrics), metrics.open("ab") as file:
            os.fsync(file.fileno())
        self._write_allocations(None)

    def close(self, outcome: Outcome) -> None:
        """Writes how the run ended; the summary comes last."""
        if not self._open:
            return
        self._write_allocations(outcome.matrix)
        write_bytes(self.folder / "weights.safetensors", _packed(outcome.weights))
        self._write_summary(outcome)
        self._open = False

    def add_test(self, outcome: Outcome) -> None:
        """Writes the summary of a closed run anew, with the test that came after it."""
        self._write_summary(outcome)

    def _write_summary(self, outcome: Outcome) -> None:
        hashed = [self.folder / name for name in _HASHED]
        content = sealed(summary_of(outcome), "summary.json", hashed)
        write_json(self.folder / "summary.json", content)

    def interrupt(self, reason: str = "interrupted") -> None:
        """Writes what there is and why the run stopped; does nothing to a run that is closed.

        Of a new run that has not come so far as its first round nothing is left, so that its folder
        is not in the way of the next attempt.
        """
        if not self._open:
            return
        if self._is_new and not self.n_done and not self._rounds:
            self._remove()
            return
        self._write_allocations(None)
        rounds = max([self.n_done, *self._rounds[-1:]])
        write_json(self.folder / "interrupted.json", {"reason": reason, "rounds": rounds})
        self._open = False

    def _remove(self) -> None:
        self._open = False
        shutil.rmtree(self.folder, ignore_errors=True)
        for parent in self.folder.parents[:2]:  # of the method, and of the condition
            with suppress(OSError):
                parent.rmdir()  # where nothing else is in it

    def _write_allocations(self, matrix: Floats | None) -> None:
        shape = (len(self.header.task_names), len(self.header.component_names))
        probabilities = np.array(self._probabilities, np.float32).reshape(-1, *shape)
        arrays: dict[str, Any] = {"rounds": np.array(self._rounds, np.int64)}
        arrays["probabilities"] = probabilities  # [n, T, C]
        if matrix is not None:
            arrays["matrix"] = np.asarray(matrix, np.float32)  # [T, C]
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **arrays)
        write_bytes(self.folder / "allocations.npz", content.getvalue())


def open_runs(out: Path, headers: Sequence[RunHeader], environment: Environment) -> list[RunWriter]:
    """Returns a writer for each of the runs of one sweep; if one has to refuse, none is made."""
    folders = [run_folder(out, header) for header in headers]
    check_new(folders)
    pairs = zip(folders, headers, strict=True)
    return [RunWriter(folder, header, environment) for folder, header in pairs]


def check_same(folder: Path, header: RunHeader, *, any_rounds: bool = False) -> None:
    """Raises where ``folder`` holds a run with other settings; its command may be another.

    With ``any_rounds`` it may have been meant to be longer, or shorter.
    """
    path = folder / "settings.json"
    if not path.exists():
        return
    with reading(path):
        kept, now = (plain(header_from(each)) for each in (read_json(path), plain(header)))
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
    out: Path, headers: Sequence[RunHeader], state: TrainingState | None, now: Environment
) -> list[RunWriter]:
    """Returns writers that go on after a state, or that start anew where there is none."""
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
    earlier = _entries_until(folder, state) if state and state.n_entries else Earlier()
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
    n_done = 0 if state is None else state.round
    return RunWriter(folder, header, earlier=replace(earlier, n_done=n_done))


def _entries_until(folder: Path, state: TrainingState) -> Earlier:
    """Returns the log entries from before a state was taken."""
    n = state.n_entries
    with reading(folder / "metrics.jsonl"):
        rounds = [entry["round"] for entry in read_entries(folder / "metrics.jsonl", n)]
    snapshots = read_snapshots(folder / "allocations.npz")
    if len(rounds) < n or snapshots.rounds[:n].tolist() != rounds:
        raise RecordError(
            f"A run that goes on after round {state.round} should have {n} entries in "
            f"`metrics.jsonl` and `allocations.npz`. Found others in `{folder}`."
        )
    return Earlier(rounds=rounds, probabilities=list(snapshots.probabilities[:n]))


def _cut(path: Path, n_lines: int) -> None:
    """Leaves the first lines of a file."""
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(True)
    if n_lines == 0:
        path.unlink()
    elif len(lines) > n_lines:
        write_bytes(path, b"".join(lines[:n_lines]))


def _packed(weights: dict[str, Any]) -> bytes:
    """Returns a state dict as the content of a safetensors file."""
    # A copy of each, since the runs of one program are views of the same memory.
    tensors = {name: torch.as_tensor(value).detach().cpu() for name, value in weights.items()}
    return save({name: tensor.contiguous().clone() for name, tensor in tensors.items()})


def _state(folder: Path) -> str:
    if (folder / "summary.json").exists():
        return "a completed run"
    if (folder / "settings.json").exists():
        return "a run that did not reach its end"
    return "which is there already"
