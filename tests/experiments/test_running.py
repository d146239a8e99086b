"""Sweeps that are stopped and go on."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pytest import MonkeyPatch, TempPathFactory, fixture, mark, param, raises

from allotment.experiments import RunGroup, Stop, Stopped, Sweep, run_sweep
from allotment.experiments.launchers import _training
from allotment.records import RecordError, RunWriter, read_environment, read_runs, unfinished_runs
from allotment.training import Progress
from tests.experiments.toy import toy


def a_sweep(out: Path, name: str = "two_pairs", **changes: Any) -> Sweep:
    experiment = toy(name, rounds=40)
    values: dict[str, Any] = {"experiment": experiment, "methods": experiment.methods, "out": out}
    return Sweep(**values | {"n_runs": 2, "checkpoint_every": 10} | changes)


def quiet(group: RunGroup, progress: Progress) -> None:
    pass


def stop_after(n_news: int) -> tuple[Callable[[RunGroup, Progress], None], Stop]:
    """Returns a listener that asks for a stop at the so-many-th news."""
    stop, heard = Stop(), 0

    def listen(group: RunGroup, progress: Progress) -> None:
        nonlocal heard
        heard += 1
        if heard == n_news:
            stop.ask("tired")

    return listen, stop


def records_in(out: Path) -> dict[str, Any]:
    """Returns all files of a sweep but for the environment, and summaries without their time."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        if path.name == "summary.json":
            found[str(path.relative_to(out))] = summary = json.loads(path.read_text())
            del summary["seconds"], summary["sha256"]["summary.json"]
        elif path.name != "environment.json":
            found[str(path.relative_to(out))] = path.read_bytes()
    return found


def kill_after(n_news: int) -> Callable[[RunGroup, Progress], None]:
    """Returns a listener at whose so-many-th news the process is as good as killed."""
    heard = 0

    def listen(group: RunGroup, progress: Progress) -> None:
        nonlocal heard
        heard += 1
        if heard == n_news:
            raise KeyboardInterrupt

    return listen


@fixture(scope="module")
def finished(tmp_path_factory: TempPathFactory) -> Path:
    """The folder of a sweep that is never stopped."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("whole")
    run_sweep(a_sweep(out), quiet)
    return out


@fixture(scope="module")
def whole(finished: Path) -> Any:
    """What a sweep leaves that is never stopped."""
    return records_in(finished)


@mark.parametrize(
    ("name", "n_news"),
    [
        ("two_pairs", 1),
        param("digits", 3, marks=mark.slow),
        param("transfer", 7, marks=mark.slow),
    ],
)
def test_a_sweep_that_was_stopped_ends_as_one_that_never_was(
    name: str, n_news: int, tmp_path: Path
) -> None:
    never_stopped = a_sweep(tmp_path / "whole", name)
    folders = run_sweep(never_stopped, quiet)
    sweep = a_sweep(tmp_path / "stopped", name)
    listen, stop = stop_after(n_news)
    with raises(Stopped, match="tired"):
        run_sweep(sweep, listen, stop=stop)
    marked = unfinished_runs(sweep.out)
    assert marked
    notes = [json.loads((f / "interrupted.json").read_text()) for f in marked]
    assert all(note["reason"] == "tired" and note["rounds"] >= 10 for note in notes)
    said: list[str] = []
    gone_on = run_sweep(replace(sweep, resume=True), quiet, say=said.append)
    assert [f.relative_to(sweep.out) for f in gone_on] == [
        f.relative_to(never_stopped.out) for f in folders
    ]
    assert said == [f"Resuming after round {10 * (n_news % 5)}."]  # four blocks and an end
    assert records_in(sweep.out) == records_in(never_stopped.out)


@mark.parametrize(  # in a block, after a checkpoint, at an end
    "n_news", [1, *(param(n, marks=mark.slow) for n in (3, 5, 10))]
)
def test_a_sweep_that_crashed_ends_as_one_that_never_did(
    n_news: int, whole: Any, tmp_path: Path
) -> None:
    sweep = a_sweep(tmp_path / "crashed", checkpoint_every=20)
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(n_news))
    run_sweep(replace(sweep, resume=True), quiet)
    assert records_in(sweep.out) == whole


@mark.slow
def test_a_sweep_may_stop_after_every_block(whole: Any, tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path / "stopped", checkpoint_every=None, resume=True)
    n_stops = 0
    while True:
        listen, stop = stop_after(1)
        try:
            run_sweep(sweep, listen, stop=stop)
            break
        except Stopped:
            n_stops += 1
    assert n_stops == 7  # in each of two programs after three blocks of four, and between them
    assert records_in(sweep.out) == whole
    environment = read_environment(sweep.out / "gumbel" / "seed-001")
    assert [part.round for part in environment.pieces] == [0, 10, 20, 30]


def test_runs_closed_before_a_crash_are_left_as_they_are(
    whole: Any, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    sweep = a_sweep(tmp_path / "crashed")
    close = RunWriter.close

    def die(self: RunWriter, *arguments: Any) -> None:
        if self.folder.name == "seed-001":
            raise KeyboardInterrupt
        close(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(RunWriter, "close", die)
        with raises(KeyboardInterrupt):
            run_sweep(sweep, quiet)
    closed = sweep.out / "no_sharing" / "seed-000" / "summary.json"
    before = closed.stat().st_mtime_ns
    run_sweep(replace(sweep, resume=True), quiet)
    assert closed.stat().st_mtime_ns == before
    assert records_in(sweep.out) == whole


def test_a_finished_sweep_has_nothing_left_to_do(finished: Path, tmp_path: Path) -> None:
    sweep = a_sweep(shutil.copytree(finished, tmp_path, dirs_exist_ok=True))
    folders = [
        tmp_path / method.name / f"seed-{seed:03d}" for method in sweep.methods for seed in range(2)
    ]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    said: list[str] = []
    assert run_sweep(replace(sweep, resume=True), kill_after(1), say=said.append) == folders
    assert said == [f"Nothing is left to do: every run of the sweep in {tmp_path} has its summary."]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_going_on_where_nothing_is_starts_from_the_beginning(whole: Any, tmp_path: Path) -> None:
    run_sweep(a_sweep(tmp_path / "new", resume=True), quiet)
    assert records_in(tmp_path / "new") == whole


def damage(sweep: Sweep, *rounds: int) -> None:
    for done in rounds:
        (part,) = sweep.out.glob(f"checkpoints/*/round-{done:06d}/part-1")
        part.write_bytes(part.read_bytes()[:-1])


@mark.slow
@mark.parametrize(
    ("damaged", "said"),
    [
        ((30,), "The checkpoint before it is whole: going on after round 20."),
        ((30, 20), "No checkpoint before it is whole: starting from the beginning."),
    ],
)
def test_a_sweep_goes_on_in_spite_of_damage(
    damaged: tuple[int, ...], said: str, whole: Any, tmp_path: Path
) -> None:
    sweep = a_sweep(tmp_path / "crashed")
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(4))
    damage(sweep, *damaged)
    heard: list[str] = []
    run_sweep(replace(sweep, resume=True), quiet, say=heard.append)
    assert said in heard
    assert records_in(sweep.out) == whole


def test_checkpoints_left_by_runs_that_were_removed_are_not_used(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path, methods=a_sweep(tmp_path).methods[:1])
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(4))
    for path in sorted((tmp_path / "no_sharing").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "no_sharing").rmdir()
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(2))
    said: list[str] = []
    run_sweep(replace(sweep, resume=True), quiet, say=said.append)
    assert said == ["Resuming after round 10."]


def test_checkpoints_come_by_the_clock_unless_rounds_are_given(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    for seconds, expected in ((0.0, {"round-000030", "round-000020"}), (1e6, set())):
        monkeypatch.setattr(_training, "SECONDS_BETWEEN", seconds)
        out = tmp_path / str(seconds)
        with raises(KeyboardInterrupt):
            run_sweep(a_sweep(out, checkpoint_every=None), kill_after(4))
        assert {path.name for path in out.glob("checkpoints/*/*")} == expected


def test_going_on_elsewhere_is_said(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path, methods=a_sweep(tmp_path).methods[:1])
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(2))
    path = tmp_path / "no_sharing" / "seed-001" / "environment.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"n_threads": 64}))
    said: list[str] = []
    run_sweep(replace(sweep, resume=True), quiet, say=said.append)
    assert said[-1].startswith("The end may differ in the last bits from that of a run never")
    assert said[-1].endswith("stopped: n_threads 1 (was 64).")


def test_other_settings_stop_the_sweep_before_anything_is_touched(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path)
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(2))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    others = replace(sweep, experiment=toy("two_pairs", batch_size=5), resume=True)
    with raises(RecordError, match=r"Found `settings\.training\.batch_size = 5` for \d+"):
        run_sweep(others, quiet)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@mark.slow
def test_more_seeds_can_join_a_sweep_that_was_stopped(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path)
    with raises(KeyboardInterrupt):
        run_sweep(sweep, kill_after(2))
    run_sweep(a_sweep(tmp_path, first_seed=2), quiet)
    run_sweep(replace(sweep, resume=True), quiet)
    assert len(read_runs(tmp_path)) == 12
    assert not (tmp_path / "checkpoints").exists()


@mark.parametrize(
    ("every", "message"),
    [
        (0, r"`checkpoint-every` should be at least 1\. Found `checkpoint-every = 0`"),
        (15, r"should be a multiple of 10 rounds\. Found `checkpoint-every = 15`"),
    ],
)
def test_checkpoints_fall_on_the_ends_of_blocks(every: int, message: str, tmp_path: Path) -> None:
    with raises(ValueError, match=message):
        a_sweep(tmp_path, checkpoint_every=every)


@mark.parametrize("minutes", [0.0, -1.0])
def test_a_time_limit_is_some_time(minutes: float) -> None:
    with raises(ValueError, match=rf"`minutes` should be above 0\. Found `minutes = {minutes}`"):
        Stop(minutes)


def test_a_time_limit_that_is_over_asks_for_a_stop() -> None:
    assert Stop().reason == ""
    assert Stop(60.0).reason == ""
    assert Stop(1e-9).reason == "time limit"
