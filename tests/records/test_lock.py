"""One writer at a time, and a lock that nobody has to set free by hand."""

import json
import os
import re
import socket
from pathlib import Path

from pytest import MonkeyPatch, mark, raises

from allotment.records import RecordError
from allotment.records._lock import Lock


def test_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    holder = f"process {os.getpid()} on {socket.gethostname()!r}"
    with (
        Lock(tmp_path / "runs" / "a.lock"),
        raises(RecordError, match=f"one process at a time.*a.lock` held by {re.escape(holder)}"),
    ):
        Lock(tmp_path / "runs" / "a.lock").claim()


def test_a_check_refuses_as_a_claim_does_and_leaves_the_lock_to_its_holder(tmp_path: Path) -> None:
    with Lock(tmp_path / "a.lock") as held:
        with raises(RecordError, match="one process at a time"):
            Lock(tmp_path / "a.lock").check_free()
        held.check_free()
        assert held.path.exists()


def test_what_was_set_free_leaves_nothing_and_can_be_taken_again(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "runs" / "a.lock")
    for _ in range(2):
        with lock:
            assert json.loads(lock.path.read_text())["process"] == os.getpid()
        assert not lock.path.parent.exists()
    lock.release()


def test_a_folder_with_something_else_in_it_stays(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "other").touch()
    with Lock(tmp_path / "runs" / "a.lock"):
        pass
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]


@mark.parametrize("content", ["", "[]", '{"host": "far", "process": 1}', "\0\0"])
def test_a_file_that_a_dead_process_left_is_taken_over(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.lock").write_text(content)
    with Lock(tmp_path / "a.lock") as lock:
        assert json.loads(lock.path.read_text())["process"] == os.getpid()


def test_a_file_that_its_holder_removes_at_that_moment_is_not_taken(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    first, second = Lock(tmp_path / "a.lock"), Lock(tmp_path / "a.lock")
    first.claim()
    opened = second._opened

    def opened_too_early() -> int | None:
        handle = opened()
        first.release()
        return handle

    monkeypatch.setattr(second, "_opened", opened_too_early)
    with second, raises(RecordError, match="one process at a time"):
        Lock(tmp_path / "a.lock").claim()


def test_where_a_folder_cannot_be_written_the_sentence_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with raises(RecordError, match=r"writable. Found `.*a.lock`"):
        Lock(tmp_path / "file" / "a.lock").claim()
