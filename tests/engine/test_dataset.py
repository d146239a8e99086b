"""The examples of all tasks in one place."""

import torch
from pytest import mark
from torch import Tensor
from torch.testing import assert_close

from allotment._engine._dataset import DeviceDataset
from allotment.tasks import Split

CPU = torch.device("cpu")


def assert_fetches(dataset: DeviceDataset, split: Split) -> None:
    """Asserts that rows of a split come out of the dataset as the split's own examples."""
    rows = dataset.rows(split).flip(0)
    x, found = dataset.fetch(torch.stack([rows, rows]), torch.tensor([dataset.kind(split)] * 2))
    specs = [(y.dtype, y.shape[2:]) for y in found]
    y = found[specs.index((split.targets.dtype, split.targets.shape[1:]))]
    inputs, targets = split.examples()
    for run in range(2):
        assert_close(x[run], inputs.flip(0), rtol=0, atol=0)
        assert_close(y[run], targets.flip(0), rtol=0, atol=0)


def splits(*, permutations: bool) -> list[Split]:
    """Returns splits of two arrays of bytes, some with rows and permutations of their own."""
    first, second = (torch.randint(256, (n, 1, 3, 3), dtype=torch.uint8) for n in (10, 7))
    permutation: list[Tensor | None] = (
        [torch.randperm(9), torch.randperm(9)] if permutations else [None, None]
    )
    labels, others = torch.arange(10), torch.arange(7)
    return [
        Split(first, labels, scale=1 / 255),
        Split(first, labels, torch.tensor([8, 3, 5]), permutation[0], 1 / 255),
        Split(second, others, None, permutation[1], 1 / 255),
        Split(second, others, torch.tensor([2]), permutation[0], 1 / 255),
    ]


@mark.parametrize("permutations", [True, False])
def test_a_dataset_gives_each_splits_own_examples(permutations: bool) -> None:
    made = splits(permutations=permutations)
    dataset = DeviceDataset(made, CPU)
    for split in made:
        assert_fetches(dataset, split)


def test_runs_fetch_under_different_permutations() -> None:
    made = splits(permutations=True)
    dataset = DeviceDataset(made, CPU)
    rows = torch.stack([dataset.rows(made[0])[:3], dataset.rows(made[2])[:3]])
    x, _ = dataset.fetch(rows, torch.tensor([dataset.kind(made[0]), dataset.kind(made[2])]))
    assert_close(x[0], made[0].examples()[0][:3])
    assert_close(x[1], made[2].examples()[0][:3])


def test_splits_of_one_array_are_held_once() -> None:
    made = splits(permutations=True)
    assert len(DeviceDataset(made, CPU).inputs) == 10 + 7


def test_tasks_with_labels_of_their_own_hold_their_images_once() -> None:
    images = torch.randn(10, 4)
    made = [Split(images, torch.randint(2, (10,))) for _ in range(5)]
    dataset = DeviceDataset(made, CPU)
    assert len(dataset.inputs) == 10
    for split in made:
        assert_fetches(dataset, split)


def test_targets_of_different_types_and_shapes_lie_in_arrays_of_their_own() -> None:
    x, others = torch.randn(10, 4), torch.randn(7, 4)
    made = [
        Split(x, torch.arange(10)),
        Split(x, torch.randn(10)),
        Split(others, torch.randn(7, 3), rows=torch.tensor([5, 1])),
        Split(others, torch.randn(7)),
        Split(others, torch.arange(7)),
    ]
    dataset = DeviceDataset(made, CPU)
    assert len(dataset.inputs) == 10 + 7
    assert [list(targets.shape) for targets in dataset.targets] == [[17], [17], [7, 3]]
    for split in made:
        assert_fetches(dataset, split)


def test_runs_fetch_targets_of_different_types_in_one_step() -> None:
    x, labels, numbers = torch.randn(6, 4), torch.arange(6), torch.randn(6, 2)
    made = [Split(x, labels), Split(x, numbers)]
    dataset = DeviceDataset(made, CPU)
    rows = torch.tensor([[4, 2], [3, 5]])
    _, (first, second) = dataset.fetch(rows, torch.tensor([dataset.kind(split) for split in made]))
    assert_close(first[0], labels[[4, 2]])
    assert_close(second[1], numbers[[3, 5]])


@mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_labels_of_every_width_lie_in_one_array(dtype: torch.dtype) -> None:
    x = torch.randn(4, 2)
    dataset = DeviceDataset([Split(x, torch.ones(4, dtype=dtype)), Split(x, torch.arange(4))], CPU)
    (targets,) = dataset.targets
    assert_close(targets, torch.tensor([1, 1, 1, 1, 0, 1, 2, 3]))
