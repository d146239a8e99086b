"""From archives to prepared arrays, whole or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pytest import MonkeyPatch, fixture, mark, raises

from allotment.data import DataError, DataSet, load, prepare
from tests.data._mirror import Mirror
from tests.data._published import ALL, Published, digits
from tests.data._refusal import assert_refused, snapshot


@fixture
def fetched(mirror: Mirror, folder: Path) -> DataSet:
    """A data set whose archives are in the folder, and whose prepared file is not."""
    mirror.contents = digits().contents
    dataset = digits().at(mirror.url)
    prepare(dataset, folder).unlink()
    return dataset


def _stop_midway(monkeypatch: MonkeyPatch, reason: BaseException) -> None:
    """Lets the writing of arrays stop after a few bytes."""

    def save(file: object, **arrays: object) -> None:
        os.write(file.fileno(), b"half of")  # type: ignore[attr-defined]
        raise reason

    monkeypatch.setattr(np, "savez_compressed", save)


@mark.parametrize("published", ALL)
def test_what_was_published_is_what_is_loaded(
    published: Callable[[], Published], mirror: Mirror, folder: Path
) -> None:
    mirror.contents = published().contents
    dataset = published().at(mirror.url)
    path = prepare(dataset, folder)
    assert path == folder / f"{dataset.name}.npz"
    arrays = load(dataset, folder)
    assert list(arrays) == list(dataset.arrays)
    for name, array in published().arrays.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)


@mark.parametrize("published", ALL)
def test_the_same_archives_give_the_same_bytes(
    published: Callable[[], Published], mirror: Mirror, folder: Path
) -> None:
    mirror.contents = published().contents
    dataset = published().at(mirror.url)
    path = prepare(dataset, folder)
    content = path.read_bytes()
    path.unlink()
    assert prepare(dataset, folder).read_bytes() == content


def test_nothing_but_the_prepared_file_and_the_archives_is_added(
    mirror: Mirror, folder: Path
) -> None:
    mirror.contents = digits().contents
    prepare(digits().at(mirror.url), folder)
    files = {path for path in snapshot(folder) if (folder / path).is_file()}
    archives = {f"archives/mnist/{name}" for name in mirror.contents}
    assert files == {"notes.txt", "mnist.npz"} | archives


def test_a_sound_file_is_left_as_it_is(mirror: Mirror, folder: Path) -> None:
    np.savez(folder / "mnist.npz", **digits().arrays)  # type: ignore[arg-type]
    before = snapshot(folder)
    prepare(digits().at(mirror.url), folder)
    assert snapshot(folder) == before
    assert mirror.requests == []


def test_a_damaged_file_is_made_anew(fetched: DataSet, folder: Path) -> None:
    (folder / "mnist.npz").write_bytes(b"half of")
    prepare(fetched, folder)
    np.testing.assert_array_equal(load(fetched, folder)["x_train"], digits().arrays["x_train"])


def test_a_damaged_file_stays_until_a_sound_one_is_there(mirror: Mirror, folder: Path) -> None:
    (folder / "mnist.npz").write_bytes(b"half of")
    assert_refused(digits().at(mirror.url), folder, "404 Not Found")


@mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_folder_as_it_was(
    code: int, monkeypatch: MonkeyPatch, fetched: DataSet, folder: Path
) -> None:
    _stop_midway(monkeypatch, OSError(code, os.strerror(code)))
    match = rf"`{folder}` should have room for .* Found a full disk \({os.strerror(code)}\)\."
    assert_refused(fetched, folder, match)


def test_a_disk_that_fills_up_last_of_all_leaves_the_folder_as_it_was(
    monkeypatch: MonkeyPatch, fetched: DataSet, folder: Path
) -> None:
    def fill_up(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill_up)
    assert_refused(fetched, folder, "Found a full disk")


def test_an_interruption_of_the_writing_leaves_the_folder_as_it_was(
    monkeypatch: MonkeyPatch, fetched: DataSet, folder: Path
) -> None:
    before = snapshot(folder)
    _stop_midway(monkeypatch, KeyboardInterrupt())
    with raises(KeyboardInterrupt):
        prepare(fetched, folder)
    assert snapshot(folder) == before


def test_folders_made_in_vain_are_taken_back(mirror: Mirror, tmp_path: Path) -> None:
    with raises(DataError, match="404 Not Found"):
        prepare(digits().at(mirror.url), tmp_path / "not" / "yet" / "there")
    assert snapshot(tmp_path) == {}


def test_a_file_in_the_place_of_the_folder_is_told(mirror: Mirror, tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("the user's own")
    with raises(DataError, match=r"`.*data` should be a folder to read and write in\. Found: "):
        prepare(digits().at(mirror.url), file)
    assert file.read_text() == "the user's own"


def test_an_unknown_name_is_answered_with_the_known_ones(folder: Path) -> None:
    match = r"should be one of mnist, fashion_mnist, .*, omniglot, census\. Found `minst`\."
    with raises(DataError, match=match):
        prepare("minst", folder)
