"""The options that sweeps in a folder were started with, so that each of them can go on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._files import RecordError, read_json, reading, write_json, writing
from ._lock import Lock
from ._shapes import check_types

_NAME = "launch.json"
_EARLIER = "earlier"  # sweeps in the same folder that are not over, the last one first
_NEEDED = ("experiment", "command", "rounds")
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("experiment", "command", "device"), str),
    **dict.fromkeys(("rounds", "runs", "first_seed", "checkpoint_every"), int),
    **dict.fromkeys(("split", "method", "set"), list[str]),
    **dict.fromkeys(("group_size", "together"), int | None),
    **dict.fromkeys(("data_dir", "over"), str | None),
    "deterministic": bool,
    "source": dict[str, str],
    _EARLIER: list[dict[str, Any]],
}
_WHICH = ("experiment", "split", "method", "runs", "first_seed", "group_size", "set", "over")


def write_options(out: Path, options: dict[str, Any]) -> None:
    """Writes the options of a sweep that starts, or goes on, with its runs in ``out``."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with Lock(out / f"{_NAME}.lock", waits=True, keeps_folder=True):
        _write(out, [options, *_others(out, options)])


def read_options(out: Path, like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the options of the sweep started last with its runs in ``out``.

    Where sweeps before it are not over, ``like`` may have options by which one of them is meant.
    """
    if not (out / _NAME).exists():
        raise RecordError(
            f"A folder to go on in should hold the `{_NAME}` of a sweep. Found no `{out / _NAME}`; "
            "a new sweep takes --out."
        )
    found = _read(out)
    wanted = (like or {}).items()
    meant = (each for each in found if all(each.get(name) == value for name, value in wanted))
    chosen = next(meant, found[0])
    with reading(out / _NAME):
        check_types(dict.fromkeys(_NEEDED) | chosen, _TYPES)
    return chosen


def close_options(out: Path, options: dict[str, Any]) -> None:
    """Leaves out a sweep that is over, where others in the folder are not."""
    with Lock(out / f"{_NAME}.lock", waits=True, keeps_folder=True):
        _write(out, _others(out, options) or [options])


def remove_options(out: Path, options: dict[str, Any]) -> None:
    """Leaves out a sweep of which nothing came, and the folder with it if it held nothing else."""
    with Lock(out / f"{_NAME}.lock", waits=True):
        others = _others(out, options)
        if others:
            _write(out, others)
        else:
            (out / _NAME).unlink(missing_ok=True)


def _read(out: Path) -> list[dict[str, Any]]:
    """Returns the options of the sweeps in a folder, the newest first."""
    path = out / _NAME
    newest = read_json(path)
    with reading(path):
        check_types(newest, _TYPES)
        found = [newest, *newest.pop(_EARLIER, [])]
        for options in found:
            check_types(options, _TYPES)
    return found


def _others(out: Path, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the options of other sweeps in a folder."""
    found = _read(out) if (out / _NAME).exists() else []
    return [o for o in found if any(o.get(name) != options.get(name) for name in _WHICH)]


def _write(out: Path, sweeps: list[dict[str, Any]]) -> None:
    newest, *others = sweeps
    write_json(out / _NAME, newest | ({_EARLIER: others} if others else {}))
