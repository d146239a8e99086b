"""Prepared files: what is not one."""

import pickle
from pathlib import Path

import numpy as np
from pytest import mark, raises

from allotment.data import DataError
from allotment.data._folder import read_arrays, write_arrays

_ARRAYS = {"a": np.arange(1_000), "b": np.array(["x", "yz"])}


def _written(path: Path) -> bytes:
    write_arrays(path, _ARRAYS, compress=True)
    return path.read_bytes()


@mark.parametrize("compress", [True, False])
def test_arrays_come_back_as_they_were(compress: bool, tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", _ARRAYS, compress=compress)
    arrays = read_arrays(tmp_path / "a.npz")
    assert list(arrays) == list(_ARRAYS)
    for name, array in _ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)


def test_compression_saves_space(tmp_path: Path) -> None:
    write_arrays(tmp_path / "small.npz", _ARRAYS, compress=True)
    write_arrays(tmp_path / "large.npz", _ARRAYS, compress=False)
    assert (tmp_path / "small.npz").stat().st_size < (tmp_path / "large.npz").stat().st_size / 2


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    content = _written(path)
    middle = len(content) // 3
    flipped = bytes([content[middle] ^ 255])
    for damaged in (
        b"",
        b"half of",
        content[:-1],
        content[:middle],
        content[:middle] + flipped + content[middle + 1 :],
        content.replace(b"PK\1\2-\3-", b"PK\1\2-\3\xff"),  # written by a zip of the far future
        pickle.dumps(_ARRAYS),
    ):
        path.write_bytes(damaged)
        with raises(DataError, match=rf"`{path}` should be a complete npz file\. Found: "):
            read_arrays(path)


def test_a_single_array_is_not_a_prepared_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with raises(DataError, match=r"complete npz file\. Found: no zip archive\."):
        read_arrays(path)


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.array([{"an": "object"}], dtype=object))
    with raises(DataError, match="Object arrays cannot be loaded"):
        read_arrays(path)


def test_a_file_of_another_kind_is_not_taken_for_a_pickle(tmp_path: Path) -> None:
    path = tmp_path / "mnist.npz"
    path.write_text("a page that says that the file was not found")
    with raises(
        DataError, match=r"`.*mnist\.npz` should be a complete npz file\. Found: no zip arch"
    ):
        read_arrays(path)
