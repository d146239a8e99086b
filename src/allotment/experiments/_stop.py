"""Stopping a sweep between two blocks of rounds."""

import time

from .._checks import check_positive


class Stopped(Exception):  # noqa: N818  (nothing went wrong)
    """A sweep that stopped because it was asked to; its text says by whom or what."""


class Stop:
    """Tells whether a sweep should stop: after some minutes, or because somebody asks.

    >>> from allotment.experiments import Stop
    >>> stop = Stop(minutes=25)

    Args:
        minutes: After how many it stops by itself; None: never.
    """

    def __init__(self, minutes: float | None = None) -> None:
        if minutes is not None:
            check_positive("minutes", minutes)
        self._end = None if minutes is None else time.monotonic() + 60 * minutes
        self._reason = ""

    def ask(self, reason: str) -> None:
        """Has the sweep stop at the end of the block under way."""
        self._reason = reason

    @property
    def reason(self) -> str:
        """Why to stop; empty for going on."""
        if not self._reason and self._end is not None and time.monotonic() >= self._end:
            self._reason = "time limit"
        return self._reason
