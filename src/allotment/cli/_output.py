"""What commands say: on streams that may be lost on the way, and without codes of terminals."""

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

# Control characters, which a terminal would obey, but for the end of a line; and other such ends.
_CODES = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def printable(text: str) -> str:
    r"""Returns a text that a terminal shows and does not obey: a name may come from anywhere.

    >>> print(printable("red: \x1b[31m"))
    red: \x1b[31m
    """
    return _CODES.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Output:
    """A stream to which writing never fails; ``fault`` is the first error that there was."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.fault: OSError | None = None

    def write(self, text: str) -> int:
        """Writes what the stream's encoding has, and a question mark for everything else."""
        with self._tried():
            try:
                self._stream.write(text)
            except UnicodeEncodeError as error:
                self._stream.write(text.encode(error.encoding, "replace").decode(error.encoding))
        return len(text)

    def flush(self) -> None:
        with self._tried():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _tried(self) -> Iterator[None]:
        if self.fault is None:
            try:
                yield
            except OSError as error:
                self.fault = error
                self._let_go()
        else:
            with suppress(OSError, ValueError):
                yield

    def _let_go(self) -> None:
        """Sends what is still buffered nowhere, so that Python does not stumble at its end."""
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


@contextmanager
def never_failing() -> Iterator[Output]:
    """Has both streams of this process take whatever is written; gives the one of results.

    A stream that was closed from the start, as by ``>&-``, is none at all.
    """
    before = sys.stdout, sys.stderr
    with Path(os.devnull).open("w") as nowhere:
        out = Output(before[0] or nowhere)
        sys.stdout, sys.stderr = out, Output(before[1] or nowhere)
        try:
            yield out
            out.flush()
        finally:
            sys.stdout, sys.stderr = before


def fault_text(fault: OSError | None) -> str:
    """Returns why output was lost; nothing where its reader had seen enough, as `head` has."""
    if fault is None or fault.errno == errno.EPIPE:
        return ""
    return f"The output should be writable. Found: {fault.strerror}."
