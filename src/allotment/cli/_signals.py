"""Ctrl-C and SIGTERM as wishes to stop."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..experiments import Stop

STATUS = {"SIGINT": 130, "SIGTERM": 143}  # of a process that a signal stopped, as shells count


@contextmanager
def asked_by_signals(stop: Stop) -> Iterator[None]:
    """Lets SIGTERM and Ctrl-C ask for a stop; whoever asks a second time is obeyed at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop.ask(signal.Signals(number).name)
        # Not `print`: the signal may have come while something was being printed.
        os.write(2, b"\nallotment: stopping after this block of rounds; again, to stop at once.\n")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
