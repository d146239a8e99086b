"""The published table of the census, made up: read, refused, and kept as it is."""

import gzip
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pytest import MonkeyPatch, mark, raises

from allotment.data import DATASETS, DataError, DataSet, check, load, prepare
from allotment.data._census import COLUMNS, CountOf, census_arrays, read_census
from tests.data._mirror import Mirror
from tests.data._refusal import assert_refused, snapshot
from tests.experiments.toy import make_small_census
from tests.paper.made_up import as_published, people

ARRAYS = census_arrays(2, {"age": "int32", "sex": 2, "weight": "float64"})


def table(text: str, folder: Path) -> Path:
    path = folder / "table.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_numbers_stay_numbers_and_texts_become_places(tmp_path: Path) -> None:
    path = table("38, Male, 1032.38\n7, Female , 5\n", tmp_path)
    found = read_census([path], ARRAYS)
    assert found["age"].tolist() == [38, 7]
    assert found["sex_texts"].tolist() == ["Female", "Male"]  # sorted, without blanks
    assert found["sex_texts"][found["sex"]].tolist() == ["Male", "Female"]
    assert found["weight"].tolist() == [1032.38, 5.0]
    for name, spec in ARRAYS.items():
        spec.check(name, found[name])


@mark.parametrize(
    ("text", "message"),
    [
        ("38, Male, 1\n7, Female\n", r"should have 3 fields in each row\. Found 2 in row 1\."),
        ("38, Male, 1, 2\n", r"should have 3 fields in each row\. Found 4 in row 0\."),
        ("old, Male, 1\n", r"should hold numbers in the column `age`\. Found: "),
        ("", r"`table\.gz` should hold rows of a table\. Found none\."),
    ],
)
def test_another_table_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with raises(DataError, match=message):
        read_census([table(text, tmp_path)], ARRAYS)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = table("38, Male, 1\n" * 100, tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with raises(DataError, match=r"`table\.gz` should be a complete archive"):
        read_census([path], ARRAYS)


def test_the_declared_columns_are_those_published() -> None:
    assert len(COLUMNS) == 42
    assert [*COLUMNS][::41] == ["age", "income"]
    assert sum(isinstance(kind, str) for kind in COLUMNS.values()) == 13


def refused(message: str) -> AbstractContextManager[Any]:
    return raises(DataError, match=message)


@mark.parametrize(
    ("count", "expectation"),
    [
        (CountOf("sex", "Male", 2), does_not_raise()),
        (CountOf("age", None, 1), does_not_raise()),
        (CountOf("sex", "Male", 3), refused(r"`sex` should be 'Male' in 3 rows\. Found 2\.")),
        (CountOf("age", None, 3), refused(r"`age` should be above 0 in 3 rows\. Found 1\.")),
    ],
)
def test_counts_are_checked(count: CountOf, expectation: AbstractContextManager[Any]) -> None:
    texts = np.array(["Female", "Male"])
    with expectation:
        count({"age": np.array([0, 5, 0]), "sex": np.array([1, 0, 1]), "sex_texts": texts})


def declared(folder: Path, monkeypatch: MonkeyPatch, mirror: Mirror) -> DataSet:
    make_small_census(folder, monkeypatch)
    small = DATASETS["census"]
    (folder / small.file_name).unlink()
    archive = replace(small.archives[0], mirrors=(mirror.url,))
    mirror.contents[archive.name] = as_published(people())
    return replace(small, archives=(archive,))


def test_the_prepared_file_is_the_published_one(
    folder: Path, monkeypatch: MonkeyPatch, mirror: Mirror
) -> None:
    dataset = declared(folder, monkeypatch, mirror)
    path = prepare(dataset, folder)
    assert path == folder / "census_income.csv.gz"
    assert path.read_bytes() == as_published(people())
    assert load(dataset, folder)["age"].tolist() == [20 + number % 60 for number in range(120)]
    assert [verdict.fault for verdict in check(folder, [dataset])] == [None]
    assert prepare(dataset, folder) == path
    assert len(mirror.requests) == 1  # the second time it is there


@mark.parametrize("change", [lambda rows: rows[::-1], lambda rows: rows[:-1]])
def test_another_file_is_refused_and_told(
    change: Callable[[list[list[str]]], list[list[str]]],
    folder: Path,
    monkeypatch: MonkeyPatch,
    mirror: Mirror,
) -> None:
    dataset = declared(folder, monkeypatch, mirror)
    other = as_published(change(people()))
    mirror.contents[dataset.archives[0].name] = other
    assert_refused(dataset, folder, r"the md5 should be")
    (folder / dataset.file_name).write_bytes(other)
    before = snapshot(folder)
    (verdict,) = check(folder, [dataset])
    assert verdict.fault is not None
    assert "should be" in verdict.fault and snapshot(folder) == before
