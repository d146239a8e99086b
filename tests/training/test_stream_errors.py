"""Mistakes in batches that stream, named by task and split."""

from dataclasses import replace
from typing import Any

import torch
from pytest import mark, raises, warns
from torch import Tensor

from allotment.tasks import Stream, Task
from allotment.training import fit
from tests.training.test_streams import Rows, a_classifier, batches_of
from tests.training.toy import SETTINGS, classes


@mark.parametrize("which", ["inputs", "targets"])
def test_nan_in_a_batch_is_named(which: str) -> None:
    first, second = classes(3, 4)
    x = Rows(first).x
    pair = [x.clone(), x[:, 0].clone()]
    pair[which == "targets"][5] = torch.nan

    def mean_error(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, 0] - targets).abs().mean()

    batches = list(zip(pair[0].split(8), pair[1].split(8), strict=True))
    tasks = [Task(first.name, lambda: iter(batches), loss=mean_error), second]
    with warns(UserWarning, match=rf"It may be that the {which} of task 'classes 0' had NaN in a"):
        result = fit(a_classifier(), tasks, SETTINGS)
    assert result.failed_step is not None


def test_a_batch_without_a_label_is_named() -> None:
    first, second = classes(3, 4)
    rows = Rows(first)
    rows.y[8:16] = -100
    batches = list(zip(rows.x.split(8), rows.y.split(8), strict=True))
    tasks = [Task(first.name, lambda: iter(batches), n_outputs=3), second]
    with warns(UserWarning, match=r"that the targets of task 'classes 0' were all -100 in a batch"):
        fit(a_classifier(), tasks, SETTINGS)


def test_nan_that_a_loss_leaves_out_is_no_mistake() -> None:
    first, second = classes(3, 4)
    x = Rows(first).x

    def known_error(outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.where(targets.isnan(), 0.0, outputs[:, 0] - targets.nan_to_num()).abs().mean()

    y = x[:, 0].clone()
    y[::3] = torch.nan
    batches = list(zip(x.split(8), y.split(8), strict=True))
    tasks = [Task(first.name, lambda: iter(batches), loss=known_error), second]
    assert fit(a_classifier(), tasks, SETTINGS).failed_step is None


def with_one_label(task: Task, split: str, label: int, batch: int) -> Stream:
    held = Rows(task, split)
    y = held.y.clone()
    y[8 * batch] = label
    return Stream(list(zip(held.x.split(8), y.split(8), strict=True)))


@mark.parametrize("split", ["train", "validation", "test"])
@mark.parametrize("batch", [0, 2])
def test_labels_beyond_the_outputs_are_named(split: str, batch: int) -> None:
    first, second = classes(3, 4)
    odd = replace(first, **{split: with_one_label(first, split, 7, batch)})  # type: ignore[arg-type]
    rule = rf"'classes 0' should have labels from 0 to 2.* Found the label 7 in `{split}`"
    with raises(ValueError, match=rule):
        fit(a_classifier(), [odd, second], SETTINGS)


@mark.parametrize("place", [0, 1])
def test_a_batch_of_validation_that_is_no_pair_is_named(place: int) -> None:
    first, second = classes(3, 4)
    batches: list[Any] = list(batches_of(first))
    batches[place] = torch.zeros(2)
    odd = replace(first, validation=Stream(batches))
    with raises(ValueError, match=r"Task 'classes 0', validation: A batch should be a pair"):
        fit(a_classifier(), [odd, second], SETTINGS)


@mark.parametrize(
    ("batches", "found"),
    [
        ([], r"A stream should give at least one batch\. Found none"),
        ([torch.ones(8, 4)], r"A batch should be a pair .* Found a Tensor"),
    ],
)
def test_a_task_without_batches_to_learn_from_is_named(batches: list[Tensor], found: str) -> None:
    first, second = classes(3, 4)
    odd = replace(first, train=Stream(lambda: iter(batches)))
    with raises(ValueError, match=rf"^Task 'classes 0', train: {found}\.$"):
        fit(a_classifier(), [odd, second], SETTINGS)


def test_a_later_batch_without_targets_is_named_by_task() -> None:
    first, second = classes(3, 4)
    rows = Rows(first)

    def batches() -> Any:
        yield rows.x[:8], rows.y[:8]
        yield rows.x[:8]

    with raises(ValueError, match=r"^Task 'classes 0', train: A batch should be a pair"):
        fit(a_classifier(), [replace(first, train=Stream(batches)), second], SETTINGS)
