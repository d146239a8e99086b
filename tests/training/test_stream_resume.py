"""Going on where batches are fetched: exact where a source can tell where it stands."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("torchdata", reason="torchdata is not installed here")
from pytest import mark, param, warns
from torch.utils.data import DataLoader
from torchdata import stateful_dataloader

from allotment.tasks import Task
from allotment.training import Run
from tests.training.test_streams import Rows, a_classifier
from tests.training.toy import SETTINGS, assert_resumed_to_the_bit, classes, resumed_outcomes


def stateful(task: Task, **options: Any) -> Any:
    """Returns a loader of torchdata's, which can tell where it stands."""
    return stateful_dataloader.StatefulDataLoader(Rows(task), batch_size=8, **options)


@mark.parametrize(
    "kind",
    [
        param(Rows, id="dataset"),
        param(partial(stateful, shuffle=False), id="a loader that tells its state"),
        param(partial(stateful, shuffle=True), id="one that shuffles"),
        param(partial(stateful, shuffle=True, num_workers=1), id="one with a worker"),
    ],
)
@mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata's own
def test_a_resumed_training_is_exact(kind: Callable[[Task], Any]) -> None:
    def runs() -> list[Run]:
        network = a_classifier()  # first: it seeds the order of a loader that shuffles
        tasks = [Task(task.name, kind(task)) for task in classes(3, 4, n=44)]
        return [Run(network, tasks, 3, SETTINGS.changed(rounds=30))]

    assert_resumed_to_the_bit(runs)


def test_a_loader_that_cannot_tell_its_state_is_told_of() -> None:
    def runs() -> list[Run]:
        tasks = [Task(t.name, DataLoader(Rows(t), batch_size=8)) for t in classes(3, 4)]
        return [Run(a_classifier(), tasks, 3, SETTINGS.changed(rounds=20))]

    with warns(UserWarning, match=r"Task 'classes \d' goes on with a new epoch, and not where"):
        resumed_outcomes(runs)
