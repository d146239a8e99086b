"""The options of a launch, kept beside its runs so that it can go on without them."""

from pathlib import Path
from typing import Any

from ._errors import RecordError, writing
from ._files import read_json, write_json

_NAME = "launch.json"


def write_options(out: Path, options: dict[str, Any]) -> None:
    """Writes the options of the launch made last with its runs in ``out``."""
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    write_json(out / _NAME, options)


def read_options(out: Path) -> dict[str, Any]:
    """Returns the options of the launch made last with its runs in ``out``."""
    path = out / _NAME
    if not path.exists():
        raise RecordError(
            f"A folder to go on in should hold the `{_NAME}` of a launch. Found no `{path}`; "
            "a new launch takes --out."
        )
    options: dict[str, Any] = read_json(path)
    return options
