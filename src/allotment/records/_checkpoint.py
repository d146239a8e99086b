"""Checkpoints of a run group, which are whole or not there."""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load, save

from .._schema import TrainingState
from ._files import (
    RecordError,
    read_json,
    reading,
    sync_folder,
    write_bytes,
    write_json,
    writing,
)
from ._hashes import json_hash
from ._lock import Lock

PART_BYTES = 16 * 2**20  # of one file, so that each is easily moved
_MANIFEST = "checkpoint.json"


class Checkpoints:
    """The checkpoints of runs that train together; the newest and the one before it are kept.

    A checkpoint is a folder such as ``round-000250``. It holds ``part-1``, ``part-2``, ..., whose
    bytes end to end are one safetensors file, and ``checkpoint.json`` with the hash of each. It is
    written under another name and renamed once all of it is on the disk, so that a process may be
    killed at any instant.

    Args:
        folder: Where they are, each in a folder of its own.
        runs: The names of the runs; a checkpoint of others is never taken for theirs.

    Attributes:
        lock: Should be held by whoever writes checkpoints, or the folders of the runs.
    """

    def __init__(self, folder: Path, runs: Sequence[str]) -> None:
        self.lock = Lock(folder.with_name(f"{folder.name}.lock"))
        self._folder = folder
        self._runs = list(runs)

    def write(self, state: TrainingState) -> None:
        """Adds a checkpoint and removes all but the one before it."""
        unfinished = self._folder / ".unfinished"
        final = self._folder / f"round-{state.round:06d}"
        content = memoryview(save(state.tensors))
        with writing(final):
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            parts = {}
            for number, start in enumerate(range(0, len(content), PART_BYTES), start=1):
                part = content[start : start + PART_BYTES]
                write_bytes(unfinished / f"part-{number}", part)
                parts[f"part-{number}"] = hashlib.sha256(part).hexdigest()
            write_json(unfinished / _MANIFEST, self._manifest(state, parts))
            sync_folder(unfinished)
            shutil.rmtree(final, ignore_errors=True)  # one that was damaged
            unfinished.rename(final)
            sync_folder(self._folder)
            before = [path for path in self._found() if _round(path) < state.round]
            for path in self._found():
                if path not in (final, *before[:1]):
                    shutil.rmtree(path, ignore_errors=True)

    def newest(
        self, say: Callable[[str], None], n_rounds: int | None = None
    ) -> TrainingState | None:
        """Returns the newest state that can be read; ``say`` is told of any that is damaged.

        Where there are to be ``n_rounds`` at most, those after it do not count.
        """
        self.check_end(n_rounds)
        damaged = False
        for path in self._until(n_rounds):
            try:
                state = self._read(path)
            except RecordError as error:
                say(str(error))
                damaged = True
                continue
            if damaged:
                say(f"The checkpoint before it is whole: going on after round {state.round}.")
            return state
        if damaged:
            later = [path for path in self._found() if path not in self._until(n_rounds)]
            if later:
                raise RecordError(
                    f"`rounds` should be at least {_round(later[-1])}: no checkpoint before is "
                    f"whole. Found `rounds = {n_rounds}`."
                )
            say("No checkpoint before it is whole: starting from the beginning.")
        return None

    def check_end(self, n_rounds: int | None) -> None:
        """Raises where training cannot end at ``n_rounds``, since all checkpoints are later."""
        found = self._found()
        if found and not self._until(n_rounds):
            raise RecordError(
                f"`rounds` should be at least {_round(found[-1])}, where the earliest checkpoint "
                f"in `{self._folder}` is. Found `rounds = {n_rounds}`."
            )

    def forget_after(self, done: int) -> None:
        """Removes those after round ``done``, for a training that goes on from there."""
        with writing(self._folder):
            for path in self._found():
                if _round(path) > done:
                    shutil.rmtree(path)

    def remove(self) -> None:
        with writing(self._folder):
            if self._folder.exists():
                shutil.rmtree(self._folder)
            if self._folder.parent.exists() and not any(self._folder.parent.iterdir()):
                self._folder.parent.rmdir()

    def _found(self) -> list[Path]:
        """Returns the folders of checkpoints, damaged ones too, newest first."""
        return sorted(self._folder.glob("round-[0-9]*"), key=_round, reverse=True)

    def _until(self, n_rounds: int | None) -> list[Path]:
        return [path for path in self._found() if n_rounds is None or _round(path) <= n_rounds]

    def _manifest(self, state: TrainingState, parts: dict[str, str]) -> dict[str, Any]:
        content = {
            "round": state.round,
            "n_entries": state.n_entries,
            "seconds": state.seconds,
            "runs": self._runs,
            "parts": parts,
        }
        return content | {"sha256": json_hash(content)}

    def _read(self, folder: Path) -> TrainingState:
        manifest = read_json(folder / _MANIFEST)
        with reading(folder):
            if manifest.pop("sha256") != json_hash(manifest):
                raise ValueError(f"{_MANIFEST} has another hash than it says")
            if manifest["runs"] != self._runs:
                raise ValueError("it is of other runs")
            content = bytearray()
            for name, expected in manifest["parts"].items():
                part = (folder / name).read_bytes()
                if hashlib.sha256(part).hexdigest() != expected:
                    raise ValueError(f"{name} has another hash than when it was written")
                content += part
            return TrainingState(
                round=manifest["round"],
                n_entries=manifest["n_entries"],
                seconds=manifest["seconds"],
                tensors=load(bytes(content)),
            )


def _round(folder: Path) -> int:
    return int(folder.name.removeprefix("round-"))
