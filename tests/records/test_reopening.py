"""A run that goes on in its folder."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from allotment._schema import RunHeader, TrainingState
from allotment.records import (
    RecordError,
    RunWriter,
    check_same,
    describe_environment,
    read_environment,
    read_run,
    reopen_runs,
    run_folder,
    unfinished_runs,
)
from tests.records.made_up import SETTINGS, a_header, an_entry, an_outcome
from tests.records.test_writer import contents

HEADER = a_header(seed=3)


def a_state(done: int, n_entries: int) -> TrainingState:
    return TrainingState(round=done, n_entries=n_entries, seconds=1.0, tensors={})


def stopped(out: Path, *rounds: int, header: RunHeader = HEADER) -> Path:
    """Leaves a run as a process leaves it that is killed a while after a checkpoint."""
    writer = RunWriter(run_folder(out, header), header, describe_environment("a lamp"))
    for done in rounds:
        add(writer, done)
    writer.sync()
    return writer.folder


def add(writer: RunWriter, done: int) -> None:
    writer.add(an_entry(round=done, probabilities=np.full((4, 4), 1 / done)))


def reopened(out: Path, state: TrainingState | None, header: RunHeader = HEADER) -> RunWriter:
    now = describe_environment("a stove", deterministic=True)
    (writer,) = reopen_runs(out, [header], state, now)
    return writer


def finished(writer: RunWriter, *rounds: int) -> dict[str, bytes]:
    """Takes a run to its end and returns its files, but for the environment."""
    for done in rounds:
        add(writer, done)
    writer.close(an_outcome())
    return {n: c for n, c in contents(writer.folder).items() if n != "environment.json"}


def test_a_run_that_went_on_leaves_the_files_of_one_never_stopped(tmp_path: Path) -> None:
    new = RunWriter(tmp_path / "never stopped", HEADER)
    expected = finished(new, 10, 20, 30, 40)
    stopped(tmp_path, 10, 20, 30)
    other_command = replace(HEADER, command="allotment run two_pairs --resume out")
    writer = reopened(tmp_path, a_state(20, 2), other_command)
    assert finished(writer, 30, 40) == expected


@pytest.mark.parametrize("n_entries", [0, 1, 3])
def test_entries_after_the_checkpoint_are_cut_off(tmp_path: Path, n_entries: int) -> None:
    folder = stopped(tmp_path, 10, 20, 30)
    reopened(tmp_path, a_state(10 * n_entries + 10, n_entries))
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    assert [json.loads(line)["round"] for line in lines] == [10, 20, 30][:n_entries]


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path, cut: int) -> None:
    folder = stopped(tmp_path, 10, 20, 30)
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    writer = reopened(tmp_path, a_state(20, 2))
    finished(writer, 30)
    assert_array_equal(read_run(folder).rounds, [10, 20, 30])
    assert_array_equal(read_run(folder).snapshots.rounds, [10, 20, 30])


def test_a_digit_that_changed_is_seen_before_a_run_goes_on(tmp_path: Path) -> None:
    folder = stopped(tmp_path, 10, 20)
    path = folder / "metrics.jsonl"
    path.write_text(path.read_text().replace("0.4", "0.5", 1))
    with pytest.raises(RecordError, match=r"metrics.jsonl` damaged: .*line 1 has another checksum"):
        reopened(tmp_path, a_state(20, 2))


def test_what_a_kill_left_after_the_checkpoint_does_not_count(tmp_path: Path) -> None:
    folder = stopped(tmp_path, 10, 20)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b"\0\xff{\n")
    finished(reopened(tmp_path, a_state(20, 2)), 30)
    assert_array_equal(read_run(folder).rounds, [10, 20, 30])


def test_marks_and_half_written_files_are_cleared_away(tmp_path: Path) -> None:
    folder = stopped(tmp_path, 10)
    (folder / "interrupted.json").write_text("{}")
    (folder / ".summary.json.unfinished").write_text("{")
    writer = reopened(tmp_path, a_state(10, 1))
    assert not (folder / "interrupted.json").exists()
    assert not list(folder.glob(".*"))
    assert unfinished_runs(tmp_path) == [folder]
    finished(writer, 20)
    assert unfinished_runs(tmp_path) == []


def test_where_a_run_went_on_is_on_record(tmp_path: Path) -> None:
    folder = stopped(tmp_path, 10, 20)
    reopened(tmp_path, a_state(10, 1))
    reopened(tmp_path, a_state(20, 1))
    environment = read_environment(folder)
    assert environment.device == "a lamp"
    assert [(e.device, e.round) for e in environment.resumed] == [("a stove", 10), ("a stove", 20)]
    assert [e.deterministic for e in environment.pieces] == [False, True, True]
    assert environment.last_changes() == ""
    once = replace(environment, resumed=environment.resumed[:1])
    assert once.last_changes() == "device a stove (was a lamp), deterministic True (was False)"
    assert replace(environment, resumed=()).last_changes() == ""


def test_without_a_state_a_run_starts_anew(tmp_path: Path) -> None:
    folder = stopped(tmp_path, 10, 20)
    writer = reopened(tmp_path, None)
    assert not (folder / "metrics.jsonl").exists()
    assert read_environment(folder).device == "a stove"  # nothing of the other's work is left
    assert read_environment(folder).resumed == ()
    assert finished(writer, 10) == finished(RunWriter(tmp_path / "new", HEADER), 10)


@pytest.mark.parametrize("left", [(), ("settings.json",), ("settings.json", "environment.json")])
def test_a_run_killed_while_its_folder_was_made_starts_anew(
    tmp_path: Path, left: tuple[str, ...]
) -> None:
    folder = stopped(tmp_path)
    for path in folder.iterdir():
        if path.name not in left:
            path.unlink()
    writer = reopened(tmp_path, None)
    assert finished(writer, 10) == finished(RunWriter(tmp_path / "new", HEADER), 10)


def test_a_finished_run_stays_as_it_is(tmp_path: Path) -> None:
    folder = stopped(tmp_path, 10, 20)
    RunWriter.close(reopened(tmp_path, a_state(20, 2)), an_outcome())
    before = contents(folder)
    writer = reopened(tmp_path, a_state(10, 1))
    add(writer, 20)
    writer.sync()
    writer.interrupt()
    writer.close(an_outcome(final_loss=7.0))
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {"training": SETTINGS | {"batch_size": 32}}},
         r"`settings\.training\.batch_size = 32` for 64"),
        ({"settings": {"training": SETTINGS | {"more": 1}}},
         r"`settings\.training\.more = 1` for None"),
        ({"task_names": ("a1", "a2", "b1", "c")}, r"`task_names = \['a1'"),
    ],
)  # fmt: skip
def test_a_run_with_other_settings_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    folder = stopped(tmp_path, 10)
    before = contents(folder)
    with pytest.raises(
        RecordError, match=rf"should have the settings it began with\. Found {said}"
    ):
        reopened(tmp_path, a_state(10, 1), a_header(seed=3, **changes))
    assert contents(folder) == before


def test_a_run_of_an_older_version_with_the_same_settings_is_the_same(tmp_path: Path) -> None:
    path = stopped(tmp_path, 10) / "settings.json"
    flat = {"batch_size": 64, "learning_rate": 0.01, "precision": "float32"}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"settings": {"training": flat}}))
    check_same(path.parent, HEADER)


def test_the_same_settings_under_another_command_are_the_same(tmp_path: Path) -> None:
    check_same(stopped(tmp_path, 10), replace(HEADER, command="another"))
    check_same(tmp_path / "nowhere", HEADER)


@pytest.mark.parametrize("name", ["metrics.jsonl", "allocations.npz"])
def test_a_folder_that_lacks_entries_is_refused(tmp_path: Path, name: str) -> None:
    folder = stopped(tmp_path / "longer", 10, 20)
    fewer = stopped(tmp_path / "shorter", 10)
    (fewer / name).replace(folder / name)
    with pytest.raises(RecordError, match=r"after round 20 should have 2 entries.*Found others in"):
        reopened(tmp_path / "longer", a_state(20, 2))
