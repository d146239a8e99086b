"""Whether prepared files are sound: small ones, and the real ones where they are at hand."""

import os
from pathlib import Path

import numpy as np
from pytest import mark, skip

from allotment.data import DATASETS, DataSet, check
from tests.data._published import digits


def test_a_sound_file_has_no_fault(folder: Path) -> None:
    np.savez(folder / "mnist.npz", **digits().arrays)  # type: ignore[arg-type]
    (verdict,) = check(folder, [digits().at()])
    assert verdict.is_present
    assert verdict.fault is None


def test_wrong_content_is_told_with_its_path(folder: Path) -> None:
    arrays = digits().arrays
    arrays["y_train"][0] = 1
    path = folder / "mnist.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    (verdict,) = check(folder, [digits().at()])
    assert verdict.is_present
    assert verdict.fault == f"In `{path}`: `y_train` should have 4 examples of class 0. Found 3."


def test_missing_files_are_told_apart_from_damaged_ones(folder: Path) -> None:
    (folder / "mnist.npz").write_bytes(b"half of")
    verdicts = {verdict.dataset.name: verdict for verdict in check(folder)}
    assert list(verdicts) == list(DATASETS)
    assert [name for name, each in verdicts.items() if each.is_present] == ["mnist"]
    assert "should be a complete npz file" in str(verdicts["mnist"].fault)
    assert "allotment data prepare omniglot" in str(verdicts["omniglot"].fault)


@mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)
def test_the_real_files_hold_what_was_published(dataset: DataSet) -> None:
    folder = os.environ.get("ALLOTMENT_DATA", "")
    if not folder or not (Path(folder) / dataset.file_name).is_file():
        skip(f"$ALLOTMENT_DATA should name a folder with the real {dataset.file_name}")
    (verdict,) = check(Path(folder), [dataset])
    assert verdict.fault is None
