"""The digits suite, and its like on MNIST: four tasks from one copy of the images."""

import numpy as np
import torch
from pytest import MonkeyPatch, fixture
from torch import Tensor
from torch.testing import assert_close

from allotment.paper import digits, four_mnists
from allotment.tasks import Split, Task

PARTS = ("train", "validation", "test")


@fixture(scope="module")
def tasks() -> list[Task]:
    return digits()


def split(task: Task, part: str) -> Split:
    found = task.split(part)
    assert found is not None
    return found


def test_four_tasks_of_two_families(tasks: list[Task]) -> None:
    assert [task.name for task in tasks] == ["digits", "digits again", "rotated", "rotated again"]
    assert [task.family for task in tasks] == ["upright", "upright", "rotated", "rotated"]
    assert all(task.is_classification and task.n_outputs == 10 for task in tasks)


def test_the_four_share_one_copy_of_the_images(tasks: list[Task]) -> None:
    storages = {split(task, part).inputs.data_ptr() for task in tasks for part in PARTS}
    assert len(storages) == 1


def test_the_parts_are_disjoint_and_cover_the_images(tasks: list[Task]) -> None:
    for task in tasks:
        rows = [split(task, part).rows for part in PARTS]
        joined = torch.cat([part for part in rows if isinstance(part, Tensor)])
        assert joined.sort().values.tolist() == list(range(1_797))
        assert [len(split(task, part)) for part in PARTS] == [898, 360, 539]


def test_a_rotated_task_sees_the_same_images_turned(tasks: list[Task]) -> None:
    for part in PARTS:
        (x, y), (turned, labels) = (
            split(tasks[0], part).examples(),
            split(tasks[2], part).examples(),
        )
        assert_close(turned, torch.rot90(x, k=-1, dims=(2, 3)))
        assert torch.equal(y, labels)
        assert x.shape[1:] == (1, 8, 8)
        assert x.min() == 0.0 and x.max() == 1.0


def test_the_split_is_the_same_every_time(tasks: list[Task]) -> None:
    again = digits()
    for part in PARTS:
        assert_close(split(tasks[0], part).rows, split(again[0], part).rows)


def test_four_mnists_share_one_copy_of_the_images(monkeypatch: MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    arrays = {
        "x_train": random.integers(256, size=(20, 28, 28), dtype=np.uint8),
        "y_train": np.arange(20, dtype=np.uint8) % 10,
        "x_test": random.integers(256, size=(10, 28, 28), dtype=np.uint8),
        "y_test": np.arange(10, dtype=np.uint8),
    }
    monkeypatch.setattr("allotment.paper._images.load", lambda name, folder: arrays)
    tasks = four_mnists()
    assert [task.family for task in tasks] == ["upright", "upright", "rotated", "rotated"]
    assert len({split(task, "train").inputs.data_ptr() for task in tasks}) == 1
    (x, y), (turned, labels) = (split(task, "test").examples() for task in tasks[1:3])
    assert_close(x, torch.from_numpy(arrays["x_test"]).unsqueeze(1) / 255)
    assert_close(turned, torch.rot90(x, k=-1, dims=(2, 3)))
    assert torch.equal(y, labels)
    assert all(task.split("validation") is None and task.n_outputs == 10 for task in tasks)
