"""What a sweep keeps of its experiment: how it is reported, its file, a table's preprocessing."""

import hashlib
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from ._files import read_json, reading, write_bytes, write_json, writing
from ._hashes import file_hash

_DECLARATIONS = "experiments.json"
_PREPROCESSING = "preprocessing.json"
_DEPTH = 3  # of a run below the folder of its sweep: condition, method, seed


def write_declaration(out: Path, experiment: str, spec: Mapping[str, Any]) -> None:
    """Writes how an experiment is reported, beside what is there of others."""
    path = out / _DECLARATIONS
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    others = read_json(path) if path.exists() else {}
    write_json(path, others | {experiment: spec})


def read_declarations(*folders: Path) -> dict[str, dict[str, Any]]:
    """Returns how the experiments with runs in these folders are reported, by name.

    A folder may be one of runs at any depth, or lie in one.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in map(Path.resolve, folders):
        above = [parent / _DECLARATIONS for parent in (folder, *folder.parents[:_DEPTH])]
        for path in sorted({*folder.rglob(_DECLARATIONS), *filter(Path.is_file, above)}):
            found |= read_json(path)
    return found


def write_preprocessing(folder: Path, values: Mapping[str, Any]) -> None:
    """Writes into a run's folder how the table that it learns from becomes inputs."""
    write_json(folder / _PREPROCESSING, values)


def read_preprocessing(folder: Path) -> dict[str, Any] | None:
    """Returns what `write_preprocessing` wrote; None for a run that does not learn from a table."""
    path = folder / _PREPROCESSING
    return read_json(path) if path.exists() else None


def write_copy(out: Path, content: bytes) -> Path:
    """Returns the copy of an experiment's file in ``out``: `experiment.py`, `experiment-2.py`, ...

    A copy that is there already is used, and none is ever changed.
    """
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    new = hashlib.sha256(content).hexdigest()
    names = (f"experiment{f'-{n}' if n > 1 else ''}.py" for n in count(1))
    path = next(p for p in map(out.joinpath, names) if not p.exists() or _hash(p) == new)
    if not path.exists():
        write_bytes(path, content)
    return path


def find_copy(out: Path, sha256: str) -> Path | None:
    """Returns the copy in ``out`` whose content has this hash, if there is one."""
    found = (path for path in sorted(out.glob("experiment*.py")) if _hash(path) == sha256)
    return next(found, None)


def _hash(path: Path) -> str:
    with reading(path):
        return file_hash(path)
