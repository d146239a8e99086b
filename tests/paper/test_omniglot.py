"""Twenty alphabets: which drawings are for what, and where the published split leaks."""

from collections import Counter

import numpy as np
import torch
from pytest import MonkeyPatch, fixture, mark, raises

from allotment.data import Array, DataError
from allotment.paper import omniglot
from allotment.paper._omniglot import ALPHABETS, LEAKING, alphabets
from allotment.tasks import Split, Task
from tests.paper.made_up import drawings, in_other_order

PARTS = ("train", "validation", "test")
PER_DRAWING = ("images", "alphabet", "character", "drawer", "file_id")


def tasks_of(
    arrays: dict[str, Array], monkeypatch: MonkeyPatch, split: str = "clean"
) -> list[Task]:
    monkeypatch.setattr("allotment.paper._omniglot.load", lambda name, folder: arrays)
    return omniglot(split=split)


@fixture
def clean(monkeypatch: MonkeyPatch) -> list[Task]:
    return tasks_of(drawings(), monkeypatch)


@fixture
def published(monkeypatch: MonkeyPatch) -> list[Task]:
    return tasks_of(drawings(n_characters=30), monkeypatch, "published")


def split(task: Task, part: str) -> Split:
    found = task.split(part)
    assert found is not None
    return found


def pixels(task: Task, part: str) -> list[bytes]:
    """Returns the images of a part as they are."""
    return [image.numpy().tobytes() for image in split(task, part).examples()[0]]


def task_name(alphabet: str) -> str:
    return alphabet.replace("_", " ")


def test_a_task_for_each_alphabet_in_the_given_order(clean: list[Task]) -> None:
    assert [task.name for task in clean] == [task_name(alphabet) for alphabet in ALPHABETS]
    assert all(task.is_classification and task.n_outputs == 2 for task in clean)
    assert not any(task.family for task in clean)


def test_a_label_is_the_number_of_the_character(monkeypatch: MonkeyPatch) -> None:
    arrays = drawings(n_characters=3)
    for alphabet, task in zip(ALPHABETS, tasks_of(arrays, monkeypatch), strict=True):
        number = arrays["alphabet_names"].tolist().index(alphabet)
        for part in PARTS:
            for image, label in zip(*split(task, part).examples(), strict=True):
                same = (arrays["images"] == image.numpy()).all(axis=(1, 2))
                (row,) = np.flatnonzero(same)
                assert arrays["alphabet"][row] == number
                assert arrays["character"][row] == label


def test_images_are_held_once_as_truth_values(clean: list[Task]) -> None:
    images = {id(split(task, part).inputs) for task in clean for part in PARTS}
    assert len(images) == 1
    x, _ = split(clean[0], "train").examples()
    assert split(clean[0], "train").inputs.dtype == torch.bool
    assert x.shape[1:] == (1, 9, 9) and x.unique().tolist() == [0.0, 1.0]


def test_each_character_has_10_drawings_to_train_4_to_validate_and_6_to_test(
    clean: list[Task],
) -> None:
    for task in clean:
        for part, n in zip(PARTS, (10, 4, 6), strict=True):
            assert Counter(split(task, part).examples()[1].tolist()) == {0: n, 1: n}


def test_no_image_of_the_clean_split_stands_in_two_parts(clean: list[Task]) -> None:
    everywhere = [image for task in clean for part in PARTS for image in pixels(task, part)]
    assert len(set(everywhere)) == len(everywhere) == 20 * 2 * 20


def test_the_parts_do_not_depend_on_the_order_of_the_file(monkeypatch: MonkeyPatch) -> None:
    arrays = drawings()
    tasks = tasks_of(arrays, monkeypatch)
    shuffled = tasks_of(in_other_order(arrays, *PER_DRAWING), monkeypatch)
    for task, other in zip(tasks, shuffled, strict=True):
        for part in PARTS:
            assert pixels(task, part) == pixels(other, part)


def test_the_parts_do_not_depend_on_the_other_characters(monkeypatch: MonkeyPatch) -> None:
    few, many = (drawings(n_characters=n) for n in (1, 3))
    drawers = []
    for arrays in (few, many):
        task = tasks_of(arrays, monkeypatch)[0]
        train = split(task, "train")
        assert train.rows is not None
        rows = train.rows[train.targets[train.rows] == 0]
        known = np.isin(arrays["alphabet_names"][arrays["alphabet"]], ALPHABETS)
        drawers.append(arrays["drawer"][known][rows.numpy()].tolist())
    assert drawers[0] == drawers[1]


def test_characters_are_split_each_in_its_own_way(monkeypatch: MonkeyPatch) -> None:
    arrays = drawings(n_characters=3)
    known = np.isin(arrays["alphabet_names"][arrays["alphabet"]], ALPHABETS)
    choices = set()
    for task in tasks_of(arrays, monkeypatch):
        train = split(task, "train")
        assert train.rows is not None
        for rows in train.rows.view(3, 10):
            choices.add(tuple(arrays["drawer"][known][rows.numpy()]))
    assert len(choices) == 60


def test_the_published_split_holds_the_drawings_of_four_alphabets_twice(
    published: list[Task],
) -> None:
    for alphabet, task in zip(ALPHABETS, published, strict=True):
        n_copies = 2 if alphabet in LEAKING else 1
        for part, n in zip(PARTS, (10, 4, 6), strict=True):
            labels = split(task, part).examples()[1].tolist()
            assert Counter(labels) == dict.fromkeys(range(30), n_copies * n), task.name
        copies = Counter(image for part in PARTS for image in pixels(task, part))
        assert set(copies.values()) == {n_copies}


def test_about_half_of_the_leaking_test_images_are_training_images_too(
    published: list[Task],
) -> None:
    leaked = [
        image in set(pixels(task, "train"))
        for alphabet, task in zip(ALPHABETS, published, strict=True)
        if alphabet in LEAKING
        for image in pixels(task, "test")
    ]
    # The copy of a test image is any of the 39 others of its character, 20 of which train.
    share, p = sum(leaked) / len(leaked), 20 / 39
    assert abs(share - p) < 4 * (p * (1 - p) / len(leaked)) ** 0.5


def test_the_other_alphabets_are_split_the_same_way_in_both(monkeypatch: MonkeyPatch) -> None:
    clean, published = (tasks_of(drawings(), monkeypatch, s) for s in ("clean", "published"))
    for alphabet, ours, theirs in zip(ALPHABETS, clean, published, strict=True):
        same = all(pixels(ours, part) == pixels(theirs, part) for part in PARTS)
        assert same == (alphabet not in LEAKING)
        assert ours.name in alphabets(leaking=not same)


@mark.parametrize("name", ["", "leaky"])
def test_a_split_that_is_not_known(name: str) -> None:
    with raises(ValueError, match=rf"`split` should be one of 'clean', 'published'\. .*'{name}'"):
        omniglot(split=name)


def test_an_alphabet_that_is_missing_is_named(monkeypatch: MonkeyPatch) -> None:
    arrays = drawings()
    arrays["alphabet_names"][arrays["alphabet_names"] == "Keble"] = "Elbek"
    with raises(DataError, match=r"should hold the alphabet `Keble`\. Found no drawing of it\."):
        tasks_of(arrays, monkeypatch)
