"""The interface of all ways to train run groups, their messages, and workers in other processes."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...records import Environment
from ...training import Progress, TrainingState
from .._stop import Stop
from .._sweep import Member, RunGroup, Sweep

SECONDS_TO_WAIT = 0.2  # for messages, before it is asked again whether to stop
MOST_LOSSES = 3  # of a run group's worker, with no checkpoint between them


@dataclass(frozen=True)
class Failure:
    """An exception that ended a run group in another process.

    >>> Failure(kind="ValueError", text="`rounds` should be at least 1.").kind
    'ValueError'
    """

    kind: str
    text: str
    trace: str = ""


# Where it trains; what it does; a checkpoint; a warning; why it ended too early.
Message: TypeAlias = Environment | Progress | TrainingState | str | Failure
Messages: TypeAlias = Generator[tuple[RunGroup, Message], None, None]
Start: TypeAlias = Callable[[RunGroup], TrainingState | None]


class Launcher(ABC):
    """A way to train run groups; whoever asks it writes the records, in one process.

    >>> from allotment.experiments.launchers import InTurn
    >>> isinstance(InTurn(), Launcher)
    True
    """

    is_concurrent: bool  # whether several run groups may train at once

    @abstractmethod
    def messages(
        self, sweep: Sweep, groups: Sequence[RunGroup], start: Start, stop: Stop
    ) -> Messages:
        """Trains the groups, and yields what a record needs of each.

        ``start`` is called whenever a group starts, and returns the state it goes on from. Where a
        stop is asked for, groups under way end with a checkpoint and the others do not begin.
        """


@dataclass(frozen=True)
class Order:
    """A run group that another process should train: which runs, and where they go on."""

    members: tuple[Member, ...]
    state: TrainingState | None


@dataclass(frozen=True)
class Ended:
    """A worker has done its order."""


@dataclass(frozen=True)
class Lost:
    """A worker died, or cannot be reached."""


Event: TypeAlias = Message | Ended | Lost


class Pool(ABC):
    """Workers in other processes; orders go by numbers."""

    @abstractmethod
    def submit(self, number: int, order: Order) -> None:
        """Adds an order; a worker takes it when one is free."""

    @abstractmethod
    def wait(self, seconds: float) -> Sequence[tuple[int, Event]]:
        """Waits for something to happen, at most so long, and returns it."""

    @abstractmethod
    def ask_to_stop(self) -> None:
        """Has groups under way end with a checkpoint, and forgets orders that no worker took."""

    @abstractmethod
    def close(self) -> None:
        """Ends all workers."""


def concurrently(pool: Pool, groups: Sequence[RunGroup], start: Start, stop: Stop) -> Messages:
    """Trains run groups in the workers of a pool, and closes it.

    A group whose worker is lost goes on from its last checkpoint on another. One that fails is not
    tried again; the others go on.
    """
    shift = _Shift(pool, groups, start)
    try:
        for number in range(len(groups)):
            shift.submit(number)
        while shift.left:
            if stop.reason:
                shift.stop()
            for number, event in pool.wait(SECONDS_TO_WAIT):
                for message in shift.take(number, event) if number in shift.left else ():
                    yield groups[number], message
    finally:
        pool.close()


class _Shift:
    """Which run groups are left to the workers of a pool, by number."""

    def __init__(self, pool: Pool, groups: Sequence[RunGroup], start: Start) -> None:
        self._pool, self._groups, self._start = pool, groups, start
        self.left: set[int] = set()
        self._begun: set[int] = set()
        self._losses: Counter[int] = Counter()  # since a group's last checkpoint
        self._is_stopping = False

    def submit(self, number: int) -> None:
        group = self._groups[number]
        self.left.add(number)
        self._pool.submit(number, Order(group.members, self._start(group)))

    def stop(self) -> None:
        """Asks for a stop, but never before one group began: each sweep gets further by a block."""
        if not self._is_stopping and self._begun:
            self._is_stopping = True
            self._pool.ask_to_stop()
            self.left &= self._begun

    def take(self, number: int, event: Event) -> Iterator[Message]:
        """Yields the messages that an event brings."""
        match event:
            case Ended():
                self.left.discard(number)
            case Lost():
                yield from self._take_loss(number)
            case Failure():
                self.left.discard(number)
                yield event
            case _:
                self._begun.add(number)
                if isinstance(event, TrainingState):
                    self._losses[number] = 0
                yield event

    def _take_loss(self, number: int) -> Iterator[Message]:
        self.left.discard(number)
        self._begun.discard(number)
        if self._is_stopping:
            return
        self._losses[number] += 1
        if self._losses[number] == MOST_LOSSES:
            text = f"its worker was lost {MOST_LOSSES} times, with no checkpoint between"
            yield Failure("no exception", text)
            return
        self.submit(number)
