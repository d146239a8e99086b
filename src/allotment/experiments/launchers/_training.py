"""A run group while it trains, in this process or in that of a worker; a sweep on its way there."""

import os
import pickle
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch

from ..._checks import first_line
from ..._schema import Floats
from ...modules import extract
from ...records import Environment, describe_environment
from ...training import Outcome, Progress, Run, TrainingState, train
from .._file import run_file
from .._stop import Stop
from .._sweep import RunGroup, Sweep, device_name, remade_runs
from ._launcher import Failure, Launcher, Message, Messages, Order, Start

SECONDS_BETWEEN = 60.0  # checkpoints, unless rounds are given
SECONDS_TOGETHER = 0.1  # of training, whose messages travel together
_VARIABLES = ("ALLOTMENT_", "CUDA_DEVICE_MAX_CONNECTIONS")  # how those start that are sent along


def training(
    runs: Sequence[Run],
    sweep: Sweep,
    state: TrainingState | None,
    is_asked: Callable[[], bool],
) -> Iterator[Message]:
    """Trains a run group and yields what a record needs of it.

    The first message is the environment. A checkpoint comes when it is due, or as the last message
    where somebody asked for a stop.
    """
    yield describe_environment(
        device_name(sweep.device),
        deterministic=sweep.deterministic,
        source=str(sweep.file) if sweep.file else "",
    )
    saved = time.monotonic()
    n_last = sweep.experiment.report.n_last_rounds
    for progress in train(runs, device=sweep.device, n_last_rounds=n_last, resume_from=state):
        if progress.outcomes is not None:
            progress = replace(progress, outcomes=_counted(runs, progress.outcomes))
        yield progress
        stops = is_asked()  # after the message, whose hearer may have asked
        if progress.state and (stops or _is_due(progress.round, saved, sweep.checkpoint_every)):
            yield progress.state()
            saved = time.monotonic()
            if stops:
                return


def _counted(runs: Sequence[Run], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Returns outcomes that say how many parameters each task uses.

    Runs of a group have one architecture, so that runs with equal matrices use equally many.
    """
    known: dict[bytes, Floats | None] = {}
    for run, outcome in zip(runs, outcomes, strict=True):
        key = outcome.matrix.tobytes()
        if key not in known:
            known[key] = _n_used(run, outcome)
    return [replace(outcome, n_used=known[outcome.matrix.tobytes()]) for outcome in outcomes]


def _n_used(run: Run, outcome: Outcome) -> Floats | None:
    """Returns how many parameters the part of each task has; None where it differs by example."""
    network = deepcopy(run.network)
    network.load_state_dict(outcome.weights)
    try:
        parts = [extract(network, task) for task in range(network.n_tasks)]
    except (ValueError, NotImplementedError):
        return None
    return np.array([sum(p.numel() for p in part.parameters()) for part in parts], dtype=float)


def _is_due(done: int, saved: float, every: int | None) -> bool:
    """Tells whether the time for a checkpoint has come, by rounds or by the clock."""
    return time.monotonic() - saved >= SECONDS_BETWEEN if every is None else done % every == 0


@contextmanager
def determinism(wanted: bool) -> Iterator[None]:
    """Has torch choose deterministic algorithms, where it is wanted, and warn where it has none.

    A CPU needs nothing of this.
    """
    if not wanted:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.backends.cudnn.flags(deterministic=True, benchmark=False):
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)


@dataclass(frozen=True)
class InTurn(Launcher):
    """One run group after another, in this process.

    >>> InTurn().is_concurrent
    False
    """

    is_concurrent = False

    def messages(
        self, sweep: Sweep, groups: Sequence[RunGroup], start: Start, stop: Stop
    ) -> Messages:
        with determinism(sweep.deterministic):
            for number, group in enumerate(groups):
                # Never before the first, so that even the shortest sweep gets further by a block.
                if number and stop.reason:
                    return
                for message in training(group.runs, sweep, start(group), lambda: bool(stop.reason)):
                    yield group, message


@dataclass(frozen=True)
class Parcel:
    """A sweep as it travels to other processes, with what they need to work as this one does.

    Functions and classes of a script or a notebook travel with it. Those of modules are imported
    there, and an experiment's file is run again.
    """

    sweep: bytes
    device: str
    source: tuple[Path, Path, bytes] | None
    folder: str
    modules: tuple[str, ...]  # where modules are found
    variables: tuple[tuple[str, str], ...]  # of the environment
    commit: str | None
    dirty: bool

    @classmethod
    def of(cls, sweep: Sweep, device: str) -> "Parcel":
        here, file, data = describe_environment(device), sweep.file, sweep.data_folder
        found = None if data is None else data.resolve()
        try:
            content = cloudpickle.dumps(replace(sweep, options={}, data_folder=found))
        except (TypeError, pickle.PicklingError) as error:
            raise ValueError(
                "An experiment should consist of what can be sent to other processes. Found "
                f"otherwise: {first_line(error)}"
            ) from error
        return cls(
            sweep=content,
            device=device,
            source=None if file is None else (file.path, file.origin, file.content),
            folder=str(Path.cwd()),
            modules=tuple(sys.path),
            variables=tuple((k, v) for k, v in os.environ.items() if k.startswith(_VARIABLES)),
            commit=here.commit,
            dirty=here.dirty,
        )


@lru_cache(maxsize=1)  # a worker has many run groups of one sweep
def _opened(parcel: Parcel) -> Sweep:
    """Returns the sweep of a parcel, in a process that now works as the sender's does."""
    if Path(parcel.folder).is_dir():
        os.chdir(parcel.folder)
    os.environ.update(parcel.variables)
    sys.path += [place for place in parcel.modules if place not in sys.path]
    if parcel.source is not None:
        run_file(*parcel.source)
    sweep: Sweep = pickle.loads(parcel.sweep)
    return replace(sweep, device=parcel.device)


def batches(
    parcel: Parcel, order: Order, is_asked: Callable[[], bool]
) -> Iterator[tuple[Message, ...]]:
    """Yields the messages of a run group that a worker trains, those of a short time together."""
    waiting: list[Message] = []
    sent = -SECONDS_TOGETHER  # the first goes at once
    with _said_to(waiting):
        for message in _caught(parcel, order, is_asked):
            waiting.append(message)
            if time.monotonic() - sent >= SECONDS_TOGETHER or isinstance(message, TrainingState):
                yield tuple(waiting)
                waiting.clear()
                sent = time.monotonic()
        if waiting:
            yield tuple(waiting)


@contextmanager
def _said_to(waiting: list[Message]) -> Iterator[None]:
    """Has warnings join the messages, since nobody looks at the output of a worker."""

    def add(message: Warning | str, *place: Any, **more: Any) -> None:
        waiting.append(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = add
        yield


def _caught(parcel: Parcel, order: Order, is_asked: Callable[[], bool]) -> Iterator[Message]:
    """Yields the messages of a run group; an exception becomes the last of them."""
    try:
        sweep = _opened(parcel)
        with sweep.file.errors() if sweep.file else nullcontext(), determinism(sweep.deterministic):
            runs = remade_runs(sweep, order.members)
            for message in training(runs, sweep, order.state, is_asked):
                yield _sendable(message, parcel)
    except Exception as error:
        yield Failure(type(error).__name__, first_line(error), traceback.format_exc())


def _sendable(message: Message, parcel: Parcel) -> Message:
    """Returns a message without functions, and without memory that it shares with others."""
    match message:
        case Environment():
            return replace(message, commit=parcel.commit, dirty=parcel.dirty)
        case Progress(outcomes=ended):
            own = ended and [replace(each, weights=_copied(each.weights)) for each in ended]
            plain = Progress(message.round, message.losses, message.failed)
            return replace(plain, entries=message.entries, dead=message.dead, outcomes=own)
    return message


def _copied(weights: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.as_tensor(value).detach().clone() for name, value in weights.items()}
