"""The declarations: complete, and without contradictions."""

import re

from pytest import mark

from allotment.data import DATASETS, DataSet

each_dataset = mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)


@each_dataset
def test_the_registry_names_each_data_set_as_it_names_itself(dataset: DataSet) -> None:
    assert DATASETS[dataset.name] is dataset
    assert dataset.file_name == (dataset.as_published or f"{dataset.name}.npz")


@each_dataset
def test_every_archive_has_an_md5_and_mirrors(dataset: DataSet) -> None:
    for archive in dataset.archives:
        assert re.fullmatch(r"[0-9a-f]{32}", archive.md5), archive
        assert archive.mirrors
        for mirror in archive.mirrors:
            assert re.fullmatch(r"https?://\S+/", mirror), mirror


@each_dataset
def test_no_two_archives_of_a_data_set_share_a_name(dataset: DataSet) -> None:
    names = [archive.name for archive in dataset.archives]
    assert len(set(names)) == len(names)


@each_dataset
def test_content_is_checked_beyond_shapes(dataset: DataSet) -> None:
    assert dataset.checks


def test_the_hashes_are_all_different() -> None:
    hashes = [archive.md5 for dataset in DATASETS.values() for archive in dataset.archives]
    assert len(set(hashes)) == len(hashes) == 12


def test_what_stays_as_it_is_published_is_one_archive() -> None:
    kept = [dataset for dataset in DATASETS.values() if dataset.as_published]
    assert [dataset.name for dataset in kept] == ["census"]
    assert all(len(dataset.archives) == 1 for dataset in kept)
