"""An experiment in a Python file of one's own: its code is run, and its content is remembered."""

import hashlib
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from .._checks import first_line, nearest
from ..records import RecordError, read_options
from ._experiment import Experiment

_REFERENCE = re.compile(r"(?P<path>.+\.py)(?::(?P<variable>\w*))?", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ExperimentFile:
    """A Python file that was run for the experiment that it defines.

    Attributes:
        path: Of the file.
        variable: The experiment's name in it, where it defines several; else empty.
        content: The file as it was read.
        origin: Where the file stood when a sweep copied it, if it is such a copy; else its place.
        experiment: What it defines.
    """

    path: Path
    variable: str
    content: bytes = field(repr=False)
    origin: Path
    experiment: Experiment

    @property
    def sha256(self) -> str:
        """The hash of the file as it was read."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def reference(self) -> str:
        """What the command line calls it."""
        return f"{self.path}:{self.variable}" if self.variable else str(self.path)

    def __str__(self) -> str:
        return f"{self.origin} (SHA-256 {self.sha256[:16]})"

    def described(self) -> dict[str, str]:
        """Returns where the experiment came from, for the record."""
        return {"path": str(self.origin), "variable": self.variable, "sha256": self.sha256}

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turns an exception that passed through the file into a sentence with its line."""
        with _errors_in(self.path, self.origin):
            yield


def is_file_reference(text: str | Path) -> bool:
    """Tells whether a text means a file, such as ``a/experiment.py`` or ``experiment.py:NAME``.

    >>> is_file_reference("my_project/experiment.py"), is_file_reference("mnist")
    (True, False)
    """
    return _REFERENCE.fullmatch(str(text)) is not None


def read_experiment(reference: str | Path) -> ExperimentFile:
    """Runs a Python file and returns the experiment that it defines.

    ``reference`` is a path; where the file defines several experiments, ``path:NAME``. The file's
    folder joins those that modules are imported from, as the last one.
    """
    found = _REFERENCE.fullmatch(str(reference))
    if found is None:
        raise ValueError(f"An experiment's file should end in `.py`. Found `{reference}`.")
    path, variable = Path(found["path"]), found["variable"] or ""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"An experiment should be in a file that can be read. Found `{path}`: {error.strerror}."
        ) from error
    origin = _origin(path)
    names = run_file(path, origin, content)
    return ExperimentFile(
        path=path,
        variable=variable,
        content=content,
        origin=origin,
        experiment=_chosen(names, variable, path),
    )


def _origin(path: Path) -> Path:
    """Returns where a file stood when a sweep copied it, if that folder is there; else its path.

    So a copy finds the data that lie beside the original.
    """
    try:
        source = read_options(path.parent).get("source", {})
        original = Path(source["path"])
    except (RecordError, KeyError, TypeError):  # not the folder of such a sweep
        return path.resolve()
    return original if original.parent.is_dir() else path.resolve()


def run_file(path: Path, origin: Path, content: bytes) -> dict[str, Any]:
    """Runs a file's content as if it stood at ``origin``; returns the names that it defines."""
    module = ModuleType(f"_experiment_{hashlib.sha256(content).hexdigest()[:16]}")
    module.__file__ = str(origin)
    sys.modules[module.__name__] = module  # dataclasses look themselves up there
    if str(origin.parent) not in sys.path:
        sys.path.append(str(origin.parent))
    with _errors_in(path, origin):
        exec(compile(content, str(origin), "exec"), vars(module))
    return dict(vars(module))


def _chosen(names: dict[str, Any], variable: str, path: Path) -> Experiment:
    found = {name: value for name, value in names.items() if isinstance(value, Experiment)}
    known = " and ".join(found) or "none"
    if variable:
        if variable not in found:
            raise ValueError(
                f"`{path}:NAME` should name an Experiment that the file defines. Found "
                f"{variable!r}; the file defines {known}.{nearest(variable, found)}"
            )
        return found[variable]
    if len({id(value) for value in found.values()}) != 1:
        raise ValueError(
            f"`{path}` should define one Experiment at its top level, or be given as "
            f"`{path}:NAME`. Found {known}."
        )
    return next(iter(found.values()))


@contextmanager
def _errors_in(path: Path, origin: Path) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:  # not a mistake in the file
        raise
    except (Exception, SystemExit) as error:
        line = _line(error, origin)
        if line is None:
            raise
        raise ValueError(
            f"`{path}` should run without an error. Found {type(error).__name__} in line {line}: "
            f"{first_line(error)}"
        ) from error


def _line(error: BaseException, origin: Path) -> int | None:
    """Returns the last line of the file that an exception passed through, if any."""
    if isinstance(error, SyntaxError) and error.filename == str(origin):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(origin)]
    return lines[-1] if lines else None
