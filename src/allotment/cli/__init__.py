"""The commands: ``allotment list | init | run | report | embeddings | keep | docs | data | demo``.

Bad input is answered with one sentence on the error stream and a non-zero exit.

>>> from allotment.cli import main
>>> main(["report", "nowhere", "-o", "page.html"])
1
"""

import shlex
import sys
from collections.abc import Sequence
from importlib import import_module

import torch

from .._checks import first_line
from ._parser import make_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    parser = make_parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    from ..data import DataError  # here, so that help is quick
    from ..records import RecordError

    options.command = shlex.join(["allotment", *given])  # for the record
    try:
        module, _, action = options.action.partition(".")
        status: int = getattr(import_module(f".{module}", __package__), action)(options)
    except (ValueError, RecordError, DataError) as error:
        print(f"allotment: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        path, reason = error.filename, error.strerror
        said = (
            f"A path should be one to read or write. Found `{path}`: {reason}." if path else error
        )
        print(f"allotment: {said}", file=sys.stderr)
        return 1
    except (RuntimeError, MemoryError) as error:
        if not _is_of_memory(error):
            raise
        print(
            "allotment: a run group should fit on the device; `--group-size N` has at most N runs "
            f"train together. Found: {first_line(error)}",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("\nallotment: stopped; runs under way are marked interrupted.", file=sys.stderr)
        return 130
    return status


def _is_of_memory(error: BaseException) -> bool:
    """Returns whether memory ran out: a GPU's, that of this machine, or more than there can be."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return any(word in str(error) for word in ("can't allocate memory", "overflowed with sizes"))
