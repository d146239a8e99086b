"""Mirrors that fail, archives that are there already, and what is told on the way."""

import re
from dataclasses import replace
from pathlib import Path

import pooch
from pytest import MonkeyPatch, mark, raises

from allotment.data import DataError, prepare
from tests.data._mirror import Mirror
from tests.data._published import digits
from tests.data._refusal import assert_refused, snapshot

_NAMES = list(digits().contents)
_CLOSED = "http://127.0.0.1:9/"  # the port that discards; nobody listens


def test_every_archive_is_fetched_once_and_never_again(mirror: Mirror, folder: Path) -> None:
    mirror.contents = digits().contents
    path = prepare(digits().at(mirror.url), folder)
    assert mirror.requests == _NAMES
    path.unlink()
    prepare(digits().at(mirror.url), folder)
    assert mirror.requests == _NAMES


def test_archives_put_there_by_hand_need_no_mirror(folder: Path) -> None:
    archives = folder / "archives" / "mnist"
    archives.mkdir(parents=True)
    for name, content in digits().contents.items():
        (archives / name).write_bytes(content)
    assert prepare(digits().at(_CLOSED), folder).is_file()


def test_what_was_fetched_before_a_fault_is_not_fetched_again(mirror: Mirror, folder: Path) -> None:
    *_, last = _NAMES
    mirror.contents = {name: digits().contents[name] for name in _NAMES if name != last}
    dataset = digits().at(mirror.url)
    with raises(DataError, match="the server answered 404 Not Found"):
        prepare(dataset, folder)
    mirror.contents = digits().contents
    prepare(dataset, folder)
    assert mirror.requests == [*_NAMES, last]


def test_the_second_mirror_is_asked_when_the_first_fails(
    mirror: Mirror, second_mirror: Mirror, folder: Path
) -> None:
    second_mirror.contents = digits().contents
    prepare(digits().at(mirror.url, second_mirror.url), folder)
    assert mirror.requests == second_mirror.requests == _NAMES


def test_when_all_mirrors_fail_each_reason_is_told(
    mirror: Mirror, second_mirror: Mirror, folder: Path
) -> None:
    second_mirror.contents = dict.fromkeys(_NAMES, b"something else")
    dataset = digits().at(_CLOSED, mirror.url, second_mirror.url)
    match = (
        rf"`{_NAMES[0]}` should come from one of its mirrors\. Found: "
        rf"{_CLOSED}: the connection failed \(ConnectionError\); "
        rf"{mirror.url}: the server answered 404 Not Found; "
        rf"{second_mirror.url}: the md5 should be {dataset.archives[0].md5}, found \w{{32}}\.$"
    )
    assert_refused(dataset, folder, match)


@mark.parametrize("n_bytes", [0, 1, 50])
def test_a_connection_dropped_midway_is_told(n_bytes: int, mirror: Mirror, folder: Path) -> None:
    mirror.contents = digits().contents
    mirror.drops_after = n_bytes
    match = re.escape(f"Found: {mirror.url}: the connection dropped midway.")
    assert_refused(digits().at(mirror.url), folder, match)


def test_a_dropped_connection_leads_to_the_next_mirror(
    mirror: Mirror, second_mirror: Mirror, folder: Path
) -> None:
    mirror.contents = second_mirror.contents = digits().contents
    mirror.drops_after = 50
    assert prepare(digits().at(mirror.url, second_mirror.url), folder).is_file()


def test_a_wrong_hash_is_refused(mirror: Mirror, folder: Path) -> None:
    mirror.contents = digits().contents
    dataset = digits().at(mirror.url)
    first, *others = dataset.archives
    changed = replace(dataset, archives=(replace(first, md5="0" * 32), *others))
    assert_refused(changed, folder, rf"the md5 should be {'0' * 32}, found {first.md5}\.")


def test_a_damaged_archive_in_the_folder_is_fetched_anew(mirror: Mirror, folder: Path) -> None:
    mirror.contents = digits().contents
    damaged = folder / "archives" / "mnist" / _NAMES[0]
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"half of")
    prepare(digits().at(mirror.url), folder)
    assert damaged.read_bytes() == digits().contents[_NAMES[0]]


def test_progress_ends_with_all_bytes_of_each_archive(mirror: Mirror, folder: Path) -> None:
    mirror.contents = digits().contents
    told: dict[str, tuple[int, int]] = {}
    prepare(
        digits().at(mirror.url),
        folder,
        progress=lambda name, done, total: told.update({name: (done, total)}),
    )
    sizes = {name: (len(content), len(content)) for name, content in mirror.contents.items()}
    assert told == {**sizes, "mnist.npz": (0, 0)}


def test_an_interruption_midway_leaves_the_folder_as_it_was(
    monkeypatch: MonkeyPatch, mirror: Mirror, folder: Path
) -> None:
    def interrupt(name: str, done: int, total: int) -> None:
        if done >= total / 2:
            assert done < total
            raise KeyboardInterrupt

    monkeypatch.setattr("allotment.data._preparation._CHUNK", 16)
    mirror.contents = digits().contents
    before = snapshot(folder)
    with raises(KeyboardInterrupt):
        prepare(digits().at(mirror.url), folder, progress=interrupt)
    assert snapshot(folder) == before


def test_a_disk_that_fills_up_is_no_fault_of_the_mirror(
    monkeypatch: MonkeyPatch, mirror: Mirror, second_mirror: Mirror, folder: Path
) -> None:
    def fill_up(_: object, url: str, output_file: str, pooch_: object) -> None:
        Path(output_file).write_bytes(b"half of")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", fill_up)
    match = r"`.*data` should have room for .* Found a full disk \(No space left on device\)\."
    assert_refused(digits().at(mirror.url, second_mirror.url), folder, match)
