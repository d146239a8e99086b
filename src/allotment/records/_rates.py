"""Which learning rates were chosen for each method, and from what: one JSON file beside runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._files import file_name, read_json, reading, write_json, writing
from ._lock import Lock
from ._shapes import check_types

_NAME = "rates.json"
_CHOICE = {"factor": float, "declared": dict[str, float], "tried": list[dict[str, Any]]}
KEPT = "rates"  # the folder of kept ones


def write_rates(out: Path, experiment: str, methods: Mapping[str, Any]) -> None:
    """Writes the choices of a sweep, by a method's name."""
    _write(out / _NAME, experiment, methods)


def read_rates(out: Path) -> dict[str, Any]:
    """Returns the choices of a sweep, by a method's name; empty where none was made."""
    path = out / _NAME
    return _read(path)[1] if path.exists() else {}


def keep_rates(folders: Sequence[Path], results: Path) -> list[Path]:
    """Adds the choices of sweeps to the kept ones and returns the files that now hold them."""
    paths = []
    for source in sorted({path for folder in folders for path in folder.rglob(_NAME)}):
        experiment, methods = _read(source)
        path = results / KEPT / f"{file_name(experiment)}.json"
        with keeping(results):
            before = _read(path)[1] if path.exists() else {}
            _write(path, experiment, before | methods)
        paths.append(path)
    return paths


def read_kept_rates(results: Path, experiment: str) -> dict[str, Any]:
    """Returns the kept choices of an experiment, by a method's name; empty where there are none."""
    path = results / KEPT / f"{file_name(experiment)}.json"
    return _read(path)[1] if path.exists() else {}


def keeping(results: Path) -> Lock:
    """Returns what to hold while kept results are read, added to and written."""
    return Lock(results / ".keep.lock", waits=True)


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    found = read_json(path)
    with reading(path):
        check_types(found, {"experiment": str, "methods": dict[str, dict[str, Any]]})
        for choice in found["methods"].values():
            check_types({name: choice[name] for name in _CHOICE}, _CHOICE)
        return found["experiment"], found["methods"]


def _write(path: Path, experiment: str, methods: Mapping[str, Any]) -> None:
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"experiment": experiment, "methods": dict(methods)})
