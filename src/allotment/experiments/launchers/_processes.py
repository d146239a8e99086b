"""Run groups in processes on this machine."""

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait

import torch

from ..._checks import check_at_least
from .._stop import Stop
from .._sweep import RunGroup, Sweep
from ._launcher import Ended, Event, Launcher, Lost, Messages, Order, Pool, Start, concurrently
from ._training import Parcel, batches

# No `multiprocessing.Process`: it would run the caller's script again in every worker, and a
# process that is forked can use neither CUDA nor the threads of its parent.
_CODE = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve({handle}, {threads})"

_STOP = b"stop"


def serve(handle: int, n_threads: int) -> None:
    """Trains the orders that come in, one after another, until the sender is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the sender has them too, and asks to stop
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(n_threads)
    connection: Connection[bytes, bytes] = Connection(handle)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        connection.send_bytes(pickle.dumps(()))  # ready: imports take seconds
        parcel: Parcel = pickle.loads(connection.recv_bytes())
        while (content := connection.recv_bytes()) != _STOP:
            order: Order = pickle.loads(content)
            # While it trains, nothing else is sent to it than the wish to stop, which waits there.
            for batch in batches(parcel, order, connection.poll):
                connection.send_bytes(pickle.dumps(batch))
            connection.send_bytes(pickle.dumps((Ended(),)))


@dataclass
class _Worker:
    process: "subprocess.Popen[bytes]"
    place: int
    number: int | None
    order: Order | None  # that it has not been sent yet


@dataclass
class _ProcessPool(Pool):
    """Processes that are started when there is something to do, and again when one is lost."""

    parcel: bytes
    n_workers: int
    n_threads: int
    devices: Sequence[str]  # what each place has in CUDA_VISIBLE_DEVICES, in turn; or none
    _queue: deque[tuple[int, Order]] = field(default_factory=deque)
    _workers: "dict[Connection[bytes, bytes], _Worker]" = field(default_factory=dict)

    def submit(self, number: int, order: Order) -> None:
        self._queue.append((number, order))

    def wait(self, seconds: float) -> Sequence[tuple[int, Event]]:
        self._hand_out()
        found: list[tuple[int, Event]] = []
        for connection in wait(list(self._workers), seconds):
            assert isinstance(connection, Connection)
            found += self._received(connection)
        return found

    def ask_to_stop(self) -> None:
        self._queue.clear()
        for connection, worker in self._workers.items():
            if worker.number is not None and worker.order is None:
                with suppress(OSError):
                    connection.send_bytes(_STOP)

    def close(self) -> None:
        for connection, worker in self._workers.items():
            connection.close()
            worker.process.kill()
            worker.process.wait()
        self._workers.clear()

    def _hand_out(self) -> None:
        for connection, worker in self._workers.items():
            if worker.number is None and self._queue:
                worker.number, order = self._queue.popleft()
                with suppress(OSError):  # one that is lost says so itself
                    connection.send_bytes(pickle.dumps(order))
        while self._queue and len(self._workers) < self.n_workers:
            number, order = self._queue.popleft()
            self._start(number, order)

    def _start(self, number: int, order: Order) -> None:
        ours, theirs = Pipe()
        taken = {worker.place for worker in self._workers.values()}
        place = next(n for n in range(self.n_workers) if n not in taken)
        variables = {"OMP_NUM_THREADS": str(self.n_threads)}
        if self.devices:
            variables["CUDA_VISIBLE_DEVICES"] = self.devices[place % len(self.devices)]
        with theirs:
            code = _CODE.format(
                path=sys.path, module=__name__, handle=theirs.fileno(), threads=self.n_threads
            )
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                env=os.environ | variables,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for this process alone
            )
        self._workers[ours] = _Worker(process, place, number, order)

    def _received(self, connection: "Connection[bytes, bytes]") -> Iterator[tuple[int, Event]]:
        worker = self._workers[connection]
        number = worker.number
        try:
            events: tuple[Event, ...] = pickle.loads(connection.recv_bytes())
            if worker.order is not None:  # it is ready
                connection.send_bytes(self.parcel)
                connection.send_bytes(pickle.dumps(worker.order))
                worker.order = None
        except (EOFError, OSError):
            events = (Lost(),)
            del self._workers[connection]
            connection.close()
            worker.process.kill()
            worker.process.wait()
        if Ended() in events[-1:]:
            worker.number = None
        if number is not None:
            yield from ((number, event) for event in events)


@dataclass(frozen=True)
class Processes(Launcher):
    """Run groups in processes on this machine; the GPUs go round.

    >>> Processes(n=4).is_concurrent
    True

    Attributes:
        n: How many processes; None: one for each GPU, or for each core where none is used.
    """

    n: int | None = None
    is_concurrent = True

    def __post_init__(self) -> None:
        if self.n is not None:
            check_at_least("workers", self.n, 1)

    def messages(
        self, sweep: Sweep, groups: Sequence[RunGroup], start: Start, stop: Stop
    ) -> Messages:
        devices = visible_gpus() if sweep.device == "cuda" else []
        n = min(self.n or len(devices) or len(os.sched_getaffinity(0)), len(groups))
        # The cores are shared out: workers with as many threads each would hinder one another.
        n_threads = max(1, torch.get_num_threads() // n)
        parcel = pickle.dumps(Parcel.of(sweep, sweep.device))
        return concurrently(_ProcessPool(parcel, n, n_threads, devices), groups, start, stop)


def visible_gpus() -> list[str]:
    """Returns what CUDA_VISIBLE_DEVICES calls each GPU that this process can use."""
    if not torch.cuda.is_available():
        return []
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in named.split(",") if name.strip()]
    return names or [str(number) for number in range(torch.cuda.device_count())]
