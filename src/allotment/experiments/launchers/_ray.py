"""Run groups as tasks of a Ray cluster."""

import asyncio
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..._checks import check_at_least, first_line
from .._stop import Stop
from .._sweep import RunGroup, Sweep
from ._launcher import (
    Ended,
    Event,
    Failure,
    Launcher,
    Lost,
    Message,
    Messages,
    Order,
    Pool,
    Start,
    concurrently,
)
from ._training import Parcel, batches


def _wish() -> type:
    """Returns the class of an actor that workers ask whether the sweep should stop.

    It is made in a function, and so sent whole: its process need not import this package.
    """

    class Wish:
        def __init__(self) -> None:
            self._asked = asyncio.Event()

        async def ask(self) -> None:
            self._asked.set()

        async def asked(self) -> None:
            await self._asked.wait()

    return Wish


def _train(parcel: Parcel, order: Order, wish: Any) -> Iterator[tuple[Message, ...]]:
    """Trains a run group in a worker of the cluster."""
    import ray

    asked = wish.asked.remote()
    yield from batches(parcel, order, lambda: bool(ray.wait([asked], timeout=0)[0]))


class _RayPool(Pool):
    """Tasks of a cluster; Ray decides where and when each begins."""

    def __init__(self, ray: ModuleType, parcel: Parcel, n_gpus: float) -> None:
        self._ray = ray
        self._parcel = ray.put(parcel)
        # Beside this process: a node that dies should not take it along.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self._wish = ray.remote(num_cpus=0, scheduling_strategy=here)(_wish()).remote()
        # A retry of Ray's own would begin anew, not from a checkpoint.
        task = ray.remote(num_returns="streaming", max_retries=0, num_gpus=n_gpus)(_train)
        self._task = task
        self._numbers: dict[Any, int] = {}  # by what a task yields

    def submit(self, number: int, order: Order) -> None:
        self._numbers[self._task.remote(self._parcel, order, self._wish)] = number

    def wait(self, seconds: float) -> Sequence[tuple[int, Event]]:
        tasks = list(self._numbers)
        self._ray.wait(tasks, timeout=seconds, fetch_local=False)
        ready, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=0, fetch_local=False)
        numbers = [self._numbers[task] for task in ready]
        pairs = zip(numbers, map(self._next, ready), strict=True)
        return [(number, event) for number, batch in pairs for event in batch]

    def _next(self, task: Any) -> Sequence[Event]:
        errors = self._ray.exceptions
        try:
            batch: Sequence[Event] = self._ray.get(next(task))
        except StopIteration:
            batch = (Ended(),)
        except errors.RayTaskError as error:  # before our own code could catch it
            batch = (Failure(type(error.cause).__name__, first_line(error.cause)),)
        except errors.RayError:
            batch = (Lost(),)
        else:
            return batch
        del self._numbers[task]
        return batch

    def ask_to_stop(self) -> None:
        self._wish.ask.remote()

    def close(self) -> None:
        for task in self._numbers:
            self._ray.cancel(task, force=True)


@dataclass(frozen=True)
class RayCluster(Launcher):
    """Run groups as tasks of a Ray cluster that is running.

    >>> RayCluster(address="10.0.0.1:6379", gpus_per_group=0.5).gpus_per_group
    0.5

    Attributes:
        address: ``host:port`` of the cluster; "auto": the one that runs on this machine.
        gpus_per_group: A share of a GPU for each run group; None: 1 where the cluster has GPUs.
    """

    address: str = "auto"
    gpus_per_group: float | None = None
    is_concurrent = True

    def __post_init__(self) -> None:
        if self.address.startswith("ray://"):
            raise ValueError(
                "`ray` should be `auto` or the `host:port` of a cluster, given on one of its "
                f"nodes. Found `ray = {self.address!r}`."
            )
        if self.gpus_per_group is not None:
            check_at_least("gpus-per-group", self.gpus_per_group, 0)

    def messages(
        self, sweep: Sweep, groups: Sequence[RunGroup], start: Start, stop: Stop
    ) -> Messages:
        ray = _imported()
        with self._connected(ray):
            n_gpus = self._n_gpus(ray.cluster_resources().get("GPU", 0.0))
            parcel = Parcel.of(sweep, "cuda" if n_gpus else "cpu")
            yield from concurrently(_RayPool(ray, parcel, n_gpus), groups, start, stop)

    @contextmanager
    def _connected(self, ray: ModuleType) -> Iterator[None]:
        """Connects to the cluster, unless the caller's program is connected to one."""
        if ray.is_initialized():
            yield
            return
        # What tasks print stays in Ray's own logs; their warnings come as messages.
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            _knock(self.address)
            ray.init(self.address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                "`ray` should be the address of a Ray cluster that is running; `ray start --head` "
                f"starts one, and `--workers` needs none. Found `ray = {self.address!r}`: "
                f"{first_line(error)}"
            ) from error
        try:
            yield
        finally:
            ray.shutdown()

    def _n_gpus(self, n_found: float) -> float:
        wanted = min(1.0, n_found) if self.gpus_per_group is None else self.gpus_per_group
        if wanted > n_found:
            raise ValueError(
                "`gpus-per-group` should be what a node of the cluster has. Found "
                f"`gpus-per-group = {wanted:g}` for {n_found:g} GPUs in the whole cluster."
            )
        return wanted


def _knock(address: str) -> None:
    """Raises OSError where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def _imported() -> ModuleType:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of a change
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            "`ray` should be installed to train on its clusters: pip install 'allotment[ray]'. "
            "Found no package `ray`."
        ) from error
    return ray
