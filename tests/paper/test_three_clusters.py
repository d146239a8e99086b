"""Forty tasks of three families, on images of one shape."""

from collections import Counter
from pathlib import Path

import numpy as np
import torch
from pytest import MonkeyPatch, fixture, mark
from torch import Tensor
from torch.testing import assert_close

from allotment.data import Array
from allotment.paper import three_clusters
from allotment.paper._clusters import resized, superclasses
from allotment.tasks import Split, Task
from tests.paper.made_up import grey_images, in_other_order, photographs


@fixture
def arrays() -> dict[str, dict[str, Array]]:
    return {"cifar100": photographs(), "mnist": grey_images(), "fashion_mnist": grey_images()}


@fixture
def tasks(arrays: dict[str, dict[str, Array]], monkeypatch: MonkeyPatch) -> list[Task]:
    def load(name: str, folder: Path | None) -> dict[str, Array]:
        return arrays[name]

    monkeypatch.setattr("allotment.paper._clusters.load", load)
    return three_clusters()


def split(task: Task, part: str) -> Split:
    found = task.split(part)
    assert found is not None
    return found


def rows(task: Task, part: str) -> list[int]:
    found = split(task, part).rows
    assert isinstance(found, Tensor)
    return found.tolist()


def test_forty_tasks_of_three_families(tasks: list[Task]) -> None:
    assert Counter(task.family for task in tasks) == {
        "CIFAR-100": 20,
        "MNIST": 10,
        "Fashion-MNIST": 10,
    }
    assert [task.n_outputs for task in tasks] == [5] * 20 + [9] * 20
    names = [task.name for task in tasks]
    assert len(set(names)) == 40
    assert [names[1], names[23], names[38]] == [
        "CIFAR large things 1",
        "MNIST without 3",
        "Fashion without Bag",
    ]


def test_every_task_sees_colour_images_of_one_size_between_0_and_1(tasks: list[Task]) -> None:
    for task in tasks:
        for part in ("train", "test"):
            x, _ = split(task, part).examples()
            assert x.shape[1:] == (3, 32, 32)
            assert x.min() >= 0.0 and x.max() <= 1.0 and x.max() > 0.9


def test_the_tasks_of_a_family_share_one_copy_of_its_images(tasks: list[Task]) -> None:
    for part in ("train", "test"):
        assert len({id(split(task, part).inputs) for task in tasks}) == 3
    assert all(split(task, "train").inputs.dtype == torch.uint8 for task in tasks)


def test_a_photograph_keeps_its_colours_and_its_place(tasks: list[Task]) -> None:
    x, _ = split(tasks[0], "test").examples()
    image = photographs()["x_test"][rows(tasks[0], "test")[0]]  # [32, 32, 3]
    for i, j, channel in ((0, 0, 0), (3, 17, 1), (31, 8, 2)):
        assert_close(x[0, channel, i, j].item(), image[i, j, channel] / 255, rtol=1e-6, atol=0)


def test_a_superclass_numbers_its_five_classes_in_order(tasks: list[Task]) -> None:
    fine = photographs()["y_test_fine"]
    for superclass, task in enumerate(tasks[:20]):
        _, labels = split(task, "test").examples()
        assert fine[rows(task, "test")].tolist() == (20 * labels + superclass).tolist()
        assert Counter(labels.tolist()) == dict.fromkeys(range(5), 2)


def test_a_fifth_of_each_photographed_class_is_for_validation(tasks: list[Task]) -> None:
    for task in tasks[:20]:
        for part, n in (("train", 8), ("validation", 2)):
            labels = split(task, part).examples()[1].tolist()
            assert Counter(labels) == dict.fromkeys(range(5), n)
        assert not set(rows(task, "train")) & set(rows(task, "validation"))


def test_only_photographs_have_a_validation_split(tasks: list[Task]) -> None:
    assert [task.split("validation") is None for task in tasks] == [False] * 20 + [True] * 20


def validation_images(arrays: dict[str, Array]) -> list[set[bytes]]:
    """Returns the pixels of each superclass's validation images."""
    return [
        {image.numpy().tobytes() for image in split(task, "validation").examples()[0]}
        for task in superclasses(arrays)
    ]


def test_validation_does_not_depend_on_the_order_of_the_file() -> None:
    arrays = photographs()
    shuffled = in_other_order(arrays, "x_train", "y_train_fine", "y_train_coarse")
    assert not np.array_equal(arrays["x_train"], shuffled["x_train"])
    assert validation_images(arrays) == validation_images(shuffled)


@mark.parametrize("other", [0, 40], ids=["of one class", "of another class of the superclass"])
def test_equal_photographs_stay_on_one_side(other: int) -> None:
    arrays = photographs()
    (of_first,) = np.nonzero(arrays["y_train_fine"] == 0)
    (of_other,) = np.nonzero(arrays["y_train_fine"] == other)
    # Each image of a class stands a second time in the data, in the place of another one.
    copies = zip(of_first[:5], of_other[5:], strict=True)
    for place, copy in copies:
        arrays["x_train"][copy] = arrays["x_train"][place]
    task = superclasses(arrays)[0]
    train, validation = (
        {image.numpy().tobytes() for image in split(task, part).examples()[0]}
        for part in ("train", "validation")
    )
    assert not train & validation


def test_the_class_left_out_is_in_no_split_and_the_others_close_ranks(tasks: list[Task]) -> None:
    labels = grey_images()
    for first in (20, 30):
        for left_out, task in enumerate(tasks[first : first + 10]):
            for part in ("train", "test"):
                y = labels[f"y_{part}"]
                kept = rows(task, part)
                assert kept == np.flatnonzero(y != left_out).tolist()
                others = [digit for digit in range(10) if digit != left_out]
                expected = [others.index(digit) for digit in y[kept]]
                assert split(task, part).examples()[1].tolist() == expected


def test_grey_images_are_resized_between_their_pixels() -> None:
    # 28 pixels become 32, so a pixel of the new image lies at 7/8 (i + 1/2) - 1/2 of the old.
    ramp = torch.arange(28, dtype=torch.uint8).mul(8).expand(1, 28, 28)
    found = resized(ramp)
    places = (7 / 8 * (torch.arange(32) + 0.5) - 0.5).clamp(0, 27)
    assert found.shape == (1, 3, 32, 32) and found.dtype == torch.uint8
    expected = (8 * places).expand(1, 3, 32, 32)
    assert_close(found.double(), expected.double(), rtol=0, atol=0.5)


def test_the_channels_of_a_grey_image_are_equal_and_are_stored_once() -> None:
    images = resized(torch.from_numpy(grey_images()["x_train"]))
    assert torch.equal(images[:, 0], images[:, 1]) and torch.equal(images[:, 0], images[:, 2])
    assert images.untyped_storage().nbytes() == len(images) * 32 * 32
