"""Ctrl-C and SIGTERM as wishes to stop."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_STOPPING = b"\nallotment: stopping after this block of rounds; again, to stop at once.\n"


@contextmanager
def asked_by_signals(ask: Callable[[str], None], *, terminates: bool = True) -> Iterator[None]:
    """Lets Ctrl-C, and where it ``terminates`` SIGTERM too, ask for a stop.

    Whoever asks a second time is obeyed at once.

    Python gives signals to its main thread alone; in others nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        ask(signal.Signals(number).name)
        # Not `print`: the signal may have come while something was being printed.
        with suppress(OSError):  # nobody may be there to read it
            os.write(2, _STOPPING)

    numbers = (signal.SIGINT, signal.SIGTERM) if terminates else (signal.SIGINT,)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
