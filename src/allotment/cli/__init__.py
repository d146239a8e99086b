"""The commands: ``allotment list | init | run | sweep | report | export | predict | card | ...``.

Bad input is answered with one sentence on the error stream and a non-zero exit.

>>> from allotment.cli import main
>>> main(["report", "nowhere", "-o", "page.html"])
1
"""

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module

import torch

from .._checks import first_line
from ._output import fault_text, never_failing, printable
from ._parser import make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    with never_failing() as out:
        status = _status_of(list(sys.argv[1:] if arguments is None else arguments))
    lost = fault_text(out.fault)
    if lost:
        return _refused(lost)
    return status


def _status_of(given: list[str]) -> int:
    try:
        options = make_parser().parse_args(given)
        options.command = shlex.join(["allotment", *given])  # for the record
        return _ran(options)
    except KeyboardInterrupt:
        print("\nallotment: stopped; runs under way are marked interrupted.", file=sys.stderr)
        return 130


def _ran(options: Namespace) -> int:
    from ..data import DataError  # here, so that help is quick
    from ..records import RecordError

    try:
        module, _, action = options.action.partition(".")
        status: int = getattr(import_module(f".{module}", __package__), action)(options)
    except (ValueError, RecordError, DataError) as error:
        return _refused(error)
    except OSError as error:
        path, reason = error.filename, error.strerror
        return _refused(
            f"A path should be one to read or write. Found `{path}`: {reason}." if path else error
        )
    except (RuntimeError, MemoryError) as error:
        if not _is_of_memory(error):
            raise
        return _refused(
            "a run group should fit on the device; `--group-size N` has at most N runs "
            f"train together. Found: {first_line(error)}"
        )
    return status


def _refused(reason: object) -> int:
    """Says why a command was refused, in one line whatever names stand in it."""
    print(f"allotment: {printable(str(reason)).replace(chr(10), ' ')}", file=sys.stderr)
    return 1


def _is_of_memory(error: BaseException) -> bool:
    """Returns whether memory ran out: a GPU's, that of this machine, or more than there can be."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return any(word in str(error) for word in ("can't allocate memory", "overflowed with sizes"))
