"""A network's losses, accuracies and metrics by task, without training it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pytest import approx, mark, raises
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskModel
from allotment.tasks import Split, Task
from allotment.training import evaluate, fit
from tests.training.toy import MIXED, N_INPUTS, SETTINGS, Line, a_network, mixed, mixed_network


def spread(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    return float(outputs.std())


def measured() -> list[Task]:
    """Returns mixed tasks, of which one has a metric of its own."""
    return [replace(t, metrics={"spread": spread} if t.name == "size" else {}) for t in mixed()]


@mark.parametrize("split", ["validation", "test"])
def test_it_is_what_fit_has_at_its_end(split: str) -> None:
    network, tasks = mixed_network(), measured()
    result = fit(network, tasks, SETTINGS.changed(rounds=20))
    expected, found = getattr(result, split), evaluate(network, tasks, split)
    np.testing.assert_array_equal(found.losses, expected.losses)
    np.testing.assert_array_equal(found.accuracies, expected.accuracies)
    np.testing.assert_array_equal(found.metrics["spread"], expected.metrics["spread"])
    assert found.task_names == result.task_names
    assert found.split == split


def test_some_tasks_in_any_order_are_found_by_their_names() -> None:
    network, tasks = mixed_network(), measured()
    every = evaluate(network, tasks).by_task()
    some = evaluate(network, [tasks[3], tasks[1]])
    assert some.task_names == ("sort", "size")
    assert some.by_task() == {name: every[name] for name in ("sort", "size")}


def test_tasks_have_the_numbers_that_are_theirs() -> None:
    found = evaluate(mixed_network(), measured()).by_task()
    assert list(found) == list(MIXED)
    assert list(found["kind"]) == ["loss", "accuracy"]
    assert list(found["size"]) == ["loss", "spread"]
    assert list(found["place"]) == ["loss"]


def test_the_network_stays_as_it_is() -> None:
    network = mixed_network().train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    evaluate(network, mixed())
    assert network.training and network.layers[0].training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_loss_is_the_mean_over_the_examples() -> None:
    x, y = torch.randn(10, N_INPUTS), torch.randn(10, 1)
    network = a_network(SharedBottom(1, 2), {"a": nn.Linear(4, 1)}).eval()
    loader = DataLoader(TensorDataset(x, y), batch_size=4)
    tasks = [Task("a", (x, y), validation=loader)]
    with torch.no_grad():
        expected = float((network(x, "a") - y).square().mean())
    for split in ("train", "validation"):
        assert evaluate(network, tasks, split).losses[0] == approx(expected)


def test_a_model_without_names_takes_tasks_in_order() -> None:
    x = torch.randn(10, N_INPUTS)
    layer = ModularLayer([nn.Linear(N_INPUTS, 1) for _ in range(2)], GumbelMatrix(2, 2))
    tasks = [Task(name, (x, x[:, 0]), test=(x, x[:, 0])) for name in ("a", "b")]
    named = evaluate(MultiTaskModel(layer, task_names=["a", "b"]), tasks)
    bare = evaluate(layer, tasks)
    np.testing.assert_array_equal(bare.losses, named.losses)


def test_it_reads_as_a_table() -> None:
    tasks = [task for task in measured() if task.name in ("kind", "size")]
    lines = str(evaluate(mixed_network(), tasks, "validation")).splitlines()
    assert [part.strip() for part in lines[0].split("  ") if part.strip()] == [
        *("task", "validation loss", "validation accuracy", "validation spread"),
    ]
    assert [line.split()[0] for line in lines[1:]] == ["kind", "size"]
    assert lines[1].split()[3] == lines[2].split()[2] == "–"
    assert len({len(line) for line in lines}) == 1


def a_task(**splits: Any) -> list[Task]:
    x = torch.randn(10, N_INPUTS)
    return [Task("a", **{"train": (x, x[:, 0].abs().long() % 3), **splits})]


X, LABELS = torch.randn(4, N_INPUTS), torch.tensor([0, 1, 2, 3])


@mark.parametrize(
    ("make", "split", "message"),
    [
        (a_task, "tests", r"`split` should be one of .*Did you mean 'test'\?"),
        (a_task, "test", r"Some task should have examples for `split = 'test'`. Found none."),
        (list, "test", r"`tasks` should be tasks with different names. Found \[\]."),
        (lambda: [Task("b", (X, LABELS))], "train", r"`task` should be one of \['a'\]"),
        (lambda: a_task(train=Line(0)), "train", r"`train` should be examples .* Found a Line"),
        (
            lambda: a_task(test=Split(X[:, :5], LABELS)),
            "test",
            r"Task 'a', test: the network and the loss should take its examples. "
            r"Found inputs of shape \[B, 5\]",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_told(
    make: Callable[[], list[Task]], split: str, message: str
) -> None:
    network = a_network(SharedBottom(1, 2), {"a": nn.Linear(4, 3)})
    with raises(ValueError, match=message):
        evaluate(network, make(), split)


def test_a_label_that_is_no_class_is_told_with_its_task() -> None:
    network = a_network(SharedBottom(1, 2), {"a": nn.Linear(4, 3)})
    rule = r"^Task 'a' should have labels from 0 to 2, .*\. Found the label \d in `test`\."
    with raises(ValueError, match=rule):
        evaluate(network, a_task(test=(X, LABELS)))


def test_what_are_no_tasks_is_told() -> None:
    with raises(TypeError, match=r"`tasks` should be a list of Task\. Found a dict"):
        evaluate(mixed_network(), {})  # type: ignore[arg-type]
