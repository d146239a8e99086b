"""Where the data are, which are there, and what is said of those that are not."""

from pathlib import Path

import numpy as np
from pytest import MonkeyPatch, fixture, raises

from allotment.data import DATASETS, DataError, load, status
from allotment.data._folder import data_folder
from tests.data._published import digits


@fixture(autouse=True)
def _no_setting(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.delenv("ALLOTMENT_DATA", raising=False)


def test_a_named_folder_goes_before_the_environment_variable(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOTMENT_DATA", "set")
    assert data_folder(Path("named")) == data_folder("named") == Path("named")
    assert data_folder() == Path("set")


def test_the_last_resort_is_the_users_cache(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOTMENT_DATA", "")
    assert data_folder().name == "allotment"
    assert data_folder().is_absolute()


def test_a_tilde_is_the_home_folder() -> None:
    assert data_folder(Path("~/data")) == Path.home() / "data"


def test_status_tells_what_is_there_and_how_large(folder: Path) -> None:
    (folder / "omniglot.npz").write_bytes(b"12345")
    found = {each.dataset.name: each for each in status(folder)}
    assert list(found) == list(DATASETS)
    assert found["omniglot"].path == folder / "omniglot.npz"
    assert found["omniglot"].n_bytes == 5
    assert [name for name, each in found.items() if each.is_present] == ["omniglot"]


def test_the_status_of_a_folder_that_is_not_there_is_that_all_are_missing(tmp_path: Path) -> None:
    assert not any(each.is_present for each in status(tmp_path / "nowhere"))


def test_a_missing_data_set_names_its_path_and_the_command(tmp_path: Path) -> None:
    with raises(DataError) as refusal:
        load("mnist", tmp_path / "my data")
    assert str(refusal.value) == (
        f"The data set `mnist` should be in `{tmp_path}/my data/mnist.npz`. Found no such file; "
        f"this gets it: allotment data prepare mnist --data-dir '{tmp_path}/my data'"
    )


def test_in_the_usual_folder_the_command_needs_no_option(
    monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ALLOTMENT_DATA", str(tmp_path))
    with raises(DataError, match=r": allotment data prepare cifar100$"):
        load("cifar100")


def test_a_file_with_other_arrays_is_refused(folder: Path) -> None:
    arrays = digits().arrays
    path = folder / "mnist.npz"
    np.savez(path, x_train=arrays["x_train"])
    with raises(DataError, match=rf"In `{path}`: .* x_train, y_train, .*\. Found no `y_train`\."):
        load(digits().at(), folder)
    match = r"`x_train` should be uint8 of shape \(60000, 28, 28\)\. Found uint8 of shape \(12, 5"
    with raises(DataError, match=match):
        load("mnist", folder)


def test_arrays_that_are_not_declared_are_left_out(folder: Path) -> None:
    np.savez(folder / "mnist.npz", more=np.zeros(1), **digits().arrays)  # type: ignore[arg-type]
    assert list(load(digits().at(), folder)) == list(digits().arrays)
