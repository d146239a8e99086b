"""Run groups that train at the same time, in workers that are in fact here and take turns."""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from pytest import MonkeyPatch, TempPathFactory, fixture, mark, param, raises

from allotment.experiments import GroupsFailed, RunGroup, Stop, Stopped, Sweep, run_sweep
from allotment.experiments.launchers import Launcher, _launcher
from allotment.experiments.launchers._launcher import (
    MOST_LOSSES,
    Ended,
    Event,
    Failure,
    Lost,
    Message,
    Messages,
    Order,
    Pool,
    Start,
    concurrently,
)
from allotment.experiments.launchers._training import Parcel, batches
from allotment.records import read_environment, read_runs
from tests.experiments.test_running import a_sweep, records_in, stop_after

ROUNDS = 40  # of each run, as `a_sweep` has them
Fate = Callable[[int, int], bool]  # from an order's number and how many batches it gave


@dataclass
class Turns(Pool):
    """Workers that take turns in this process, and are lost when fate will have it so."""

    parcel: Parcel
    n_workers: int
    is_lost: Fate
    is_asked: bool = False
    is_closed: bool = False
    most_at_once: int = 0
    _queue: deque[tuple[int, Order]] = field(default_factory=deque)
    _under_way: dict[int, Iterator[tuple[Message, ...]]] = field(default_factory=dict)
    _given: dict[int, int] = field(default_factory=dict)

    def submit(self, number: int, order: Order) -> None:
        self._queue.append((number, order))

    def wait(self, seconds: float) -> Sequence[tuple[int, Event]]:
        while self._queue and len(self._under_way) < self.n_workers:
            number, order = self._queue.popleft()
            self._under_way[number] = batches(self.parcel, order, lambda: self.is_asked)
        self.most_at_once = max(self.most_at_once, len(self._under_way))
        return [(n, event) for n in list(self._under_way) for event in self._next(n)]

    def _next(self, number: int) -> tuple[Event, ...]:
        self._given[number] = self._given.get(number, 0) + 1
        if self.is_lost(number, self._given[number]):
            del self._under_way[number]
            return (Lost(),)
        batch = next(self._under_way[number], None)
        if batch is None:
            del self._under_way[number]
            return (Ended(),)
        return batch

    def ask_to_stop(self) -> None:
        self.is_asked = True
        self._queue.clear()

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Here(Launcher):
    """Trains run groups in such workers."""

    n_workers: int = 3
    is_lost: Fate = lambda number, n_batches: False
    pools: list[Turns] = field(default_factory=list)
    is_concurrent = True

    def messages(
        self, sweep: Sweep, groups: Sequence[RunGroup], start: Start, stop: Stop
    ) -> Messages:
        self.pools.append(Turns(Parcel.of(sweep, sweep.device), self.n_workers, self.is_lost))
        return concurrently(self.pools[-1], groups, start, stop)


def parted(out: Path, **changes: Any) -> Sweep:
    """A sweep of six run groups."""
    return a_sweep(out, **{"group_size": 1} | changes)


@fixture(autouse=True)
def _one_by_one(monkeypatch: MonkeyPatch) -> None:
    """Has every message travel alone, so that workers may be lost between any two."""
    monkeypatch.setattr("allotment.experiments.launchers._training.SECONDS_TOGETHER", 0.0)


@fixture(scope="module")
def whole(tmp_path_factory: TempPathFactory) -> Any:
    """What the sweep leaves where run groups train one after another."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole")
    run_sweep(parted(out))
    return records_in(out)


def test_groups_that_train_at_once_leave_what_groups_in_turn_leave(
    whole: Any, tmp_path: Path
) -> None:
    launcher = Here()
    folders = run_sweep(parted(tmp_path), launcher=launcher)
    assert records_in(tmp_path) == whole
    assert len(folders) == 6
    assert (launcher.pools[0].most_at_once, launcher.pools[0].is_closed) == (3, True)


@mark.parametrize("seed", [0, *(param(seed, marks=mark.slow) for seed in range(1, 10))])
def test_workers_lost_at_random_change_nothing(
    seed: int, whole: Any, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(_launcher, "MOST_LOSSES", 100)
    moments = random.Random(seed)
    said: list[str] = []
    launcher = Here(is_lost=lambda number, n_batches: moments.random() < 0.15)
    run_sweep(parted(tmp_path), say=said.append, launcher=launcher)
    n_lost = sum("its worker was lost" in text for text in said)
    n_going_on = sum("Resuming after round" in text for text in said)
    assert n_lost >= 3
    assert n_going_on >= 1
    assert records_in(tmp_path) == whole
    assert not (tmp_path / "checkpoints").exists()


def test_a_lost_group_goes_on_from_its_checkpoint_and_the_record_says_so(
    whole: Any, tmp_path: Path
) -> None:
    said: list[str] = []
    launcher = Here(is_lost=lambda number, n_batches: (number, n_batches) == (5, 6))
    run_sweep(parted(tmp_path), say=said.append, launcher=launcher)
    assert said == [
        "Gumbel-Matrix, seed 1: its worker was lost, and another goes on from the last checkpoint.",
        "Gumbel-Matrix, seed 1: Resuming after round 20.",
    ]
    parts = read_environment(tmp_path / "gumbel" / "seed-001").pieces
    assert [part.round for part in parts] == [0, 20]
    assert records_in(tmp_path) == whole


def test_a_group_that_loses_worker_after_worker_fails_and_the_others_end(tmp_path: Path) -> None:
    said: list[str] = []
    launcher = Here(is_lost=lambda number, n_batches: number == 4)
    with raises(GroupsFailed, match=r"in Gumbel-Matrix, seed 0: its worker was lost 3 times"):
        run_sweep(parted(tmp_path), say=said.append, launcher=launcher)
    assert sum("goes on from" in text for text in said) == MOST_LOSSES - 1
    assert len(read_runs(tmp_path)) == 5
    run_sweep(parted(tmp_path, resume=True))
    assert len(read_runs(tmp_path)) == 6


def test_losses_with_checkpoints_between_them_are_no_failure(whole: Any, tmp_path: Path) -> None:
    # An environment, then a progress and a checkpoint for each of three blocks, one of them lost.
    launcher = Here(is_lost=lambda number, n_batches: number == 4 and n_batches in (4, 8, 12))
    run_sweep(parted(tmp_path), launcher=launcher)
    assert records_in(tmp_path) == whole


@mark.parametrize("n_workers", [1, 4])
def test_a_stop_leaves_checkpoints_of_all_that_began_and_any_launcher_goes_on(
    n_workers: int, whole: Any, tmp_path: Path
) -> None:
    sweep = parted(tmp_path, checkpoint_every=None)
    listen, stop = stop_after(1)
    with raises(Stopped, match="tired"):
        run_sweep(sweep, listen, stop=stop, launcher=Here(n_workers=n_workers))
    assert len(list(tmp_path.glob("checkpoints/*/round-*"))) == n_workers
    assert len(list(tmp_path.rglob("interrupted.json"))) == n_workers
    said: list[str] = []
    again = replace(sweep, resume=True)
    run_sweep(again, say=said.append, launcher=Here(n_workers=2) if n_workers == 4 else None)
    assert sum("Resuming after round" in text for text in said) == n_workers
    assert records_in(tmp_path) == whole


def test_a_sweep_without_time_gets_further_by_a_block(tmp_path: Path) -> None:
    sweep = parted(tmp_path, checkpoint_every=None)
    with raises(Stopped, match="time limit"):
        run_sweep(sweep, stop=Stop(1e-9), launcher=Here(n_workers=2))
    assert list(tmp_path.glob("checkpoints/*/round-000010"))


def test_workers_lost_after_a_stop_was_asked_for_are_not_replaced(tmp_path: Path) -> None:
    listen, stop = stop_after(1)
    launcher = Here(n_workers=2, is_lost=lambda number, n_batches: n_batches == 3)
    with raises(Stopped, match="tired"):
        run_sweep(parted(tmp_path, checkpoint_every=None), listen, stop=stop, launcher=launcher)
    assert launcher.pools[0].is_closed


def test_an_exception_in_this_process_closes_the_workers(tmp_path: Path) -> None:
    def fail(group: RunGroup, progress: Any) -> None:
        raise KeyboardInterrupt

    launcher = Here()
    with raises(KeyboardInterrupt):
        run_sweep(parted(tmp_path), fail, launcher=launcher)
    assert launcher.pools[0].is_closed
    assert "KeyboardInterrupt" in next(tmp_path.rglob("interrupted.json")).read_text()


def test_warnings_are_told_once_and_failures_are_counted(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    def failing(*arguments: Any) -> Iterator[tuple[Message, ...]]:
        yield ("slow",)
        yield (Failure("ZeroDivisionError", "division by zero"),)

    monkeypatch.setattr(f"{__name__}.batches", failing)
    said: list[str] = []
    expected = r"Found ZeroDivisionError in No sharing, seed 0 \(and 5 more\): division by zero"
    with raises(GroupsFailed, match=expected):
        run_sweep(parted(tmp_path), say=said.append, launcher=Here())
    assert said[0] == "No sharing, seed 0: slow"
    assert len(said) == 1 + 6
