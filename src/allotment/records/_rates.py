"""Which learning rates were chosen for each method, and from what: one JSON file beside runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._files import file_name, read_json, write_json, writing

_NAME = "rates.json"
KEPT = "rates"  # the folder of kept ones


def write_rates(out: Path, experiment: str, methods: Mapping[str, Any]) -> None:
    """Writes the choices of a sweep, by a method's name."""
    _write(out / _NAME, experiment, methods)


def read_rates(out: Path) -> dict[str, Any]:
    """Returns the choices of a sweep, by a method's name; empty where none was made."""
    path = out / _NAME
    return dict(read_json(path)["methods"]) if path.exists() else {}


def keep_rates(folders: Sequence[Path], results: Path) -> list[Path]:
    """Adds the choices of sweeps to the kept ones and returns the files that now hold them."""
    paths = []
    for source in sorted({path for folder in folders for path in folder.rglob(_NAME)}):
        found = read_json(source)
        path = results / KEPT / f"{file_name(found['experiment'])}.json"
        before = read_json(path)["methods"] if path.exists() else {}
        _write(path, found["experiment"], before | found["methods"])
        paths.append(path)
    return paths


def read_kept_rates(results: Path, experiment: str) -> dict[str, Any]:
    """Returns the kept choices of an experiment, by a method's name; empty where there are none."""
    path = results / KEPT / f"{file_name(experiment)}.json"
    return dict(read_json(path)["methods"]) if path.exists() else {}


def _write(path: Path, experiment: str, methods: Mapping[str, Any]) -> None:
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"experiment": experiment, "methods": dict(methods)})
