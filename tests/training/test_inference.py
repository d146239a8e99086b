"""A task's outputs for new inputs, in every form they may come in."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pandas", reason="pandas is not installed here")
import numpy as np
import pandas as pd
import torch
from pytest import mark, param, raises
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskModel
from allotment.tasks import Split
from allotment.training import predict
from tests.training.toy import N_INPUTS, a_network

X, Y = torch.randn(10, N_INPUTS), torch.arange(10)
NETWORK = a_network(GumbelMatrix(2, 3, p_init=0.9), {"a": nn.Linear(4, 3), "b": nn.Linear(4, 2)})


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    yield from zip(X.split(4), Y.split(4), strict=True)


FORMS: dict[str, Callable[[], Any]] = {
    "a tensor": lambda: X,
    "an array": lambda: X.numpy(),
    "double precision": lambda: X.double(),
    "a loader": lambda: DataLoader(TensorDataset(X, Y), batch_size=3),
    "a loader of inputs": lambda: DataLoader(TensorDataset(X), batch_size=3),
    "a loader of tensors": lambda: DataLoader(list(X), batch_size=3),  # type: ignore[arg-type]
    "a list of batches": lambda: list(X.split(3)),
    "arrays in a list": lambda: [X[:6].numpy(), X[6:].numpy()],
    "an iterator": batches,
    "a function": lambda: batches,
    "a dataset": lambda: TensorDataset(X, Y),
    "a split": lambda: Split(torch.cat([X[:1], X]), torch.arange(11), rows=torch.arange(1, 11)),
}


@mark.parametrize("make", [param(make, id=name) for name, make in FORMS.items()])
def test_inputs_come_in_many_forms(make: Callable[[], Any]) -> None:
    found = predict(NETWORK, make(), "b", batch_size=4)
    with torch.no_grad():
        torch.testing.assert_close(found, NETWORK.eval()(X, "b"))


class Named(nn.Module):
    """Adds up its inputs, one of them scaled."""

    def __init__(self) -> None:
        super().__init__()
        components = [nn.Linear(N_INPUTS, 2) for _ in range(2)]
        self.layer = ModularLayer(components, SharedBottom(1, 2))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        y: Tensor = self.layer(left + 2 * right)
        return y


@mark.parametrize(
    "inputs",
    [
        {"left": X, "right": X + 1},
        (X, X + 1),
        [{"left": X[:7], "right": X[:7] + 1}, {"right": X[7:] + 1, "left": X[7:]}],
        [{"left": X, "right": X + 1, "labels": Y}],
        [({"left": X, "right": X + 1}, Y)],
        [((X, X + 1), Y)],
    ],
    ids=["dict", "tuple", "batches of dicts", "with labels", "pairs", "pairs of tuples"],
)
def test_inputs_may_be_several_arrays(inputs: Any) -> None:
    network = MultiTaskModel(Named())
    with torch.no_grad():
        expected = network(((X, X + 1)), 0)
    torch.testing.assert_close(predict(network, inputs, 0, batch_size=4), expected)


def test_the_mode_of_the_network_is_left() -> None:
    NETWORK.train()
    predict(NETWORK, X, "a")
    assert NETWORK.training
    with raises(ValueError, match="`inputs` should be such as"):
        predict(NETWORK, X[:, :2], "a")
    assert NETWORK.training


@mark.parametrize(
    ("inputs", "message"),
    [
        (X[:, :5], r"network takes for task 'a'. Found inputs of shape \[B, 5\] \(float32\): mat1"),
        ([X, X[:, :5]], r"Found inputs of shape \[B, 5\] \(float32\): mat1"),
        ({"left": X}, r"Found inputs with 'left' of shape \[B, 6\] \(float32\)"),
        ((X, X[:3]), r"as many in each array\. Found shapes \[10, 6\], \[3, 6\]\."),
        (torch.tensor(1.0), r"examples in front, as many in each array\. Found shapes \[\]\."),
        ({}, r"as many in each array\. Found shapes of no array\."),
        ([], r"outputs of one shape\. Found no batch\."),
        ([(X, Y, Y)], r"A batch should be inputs, a pair .* Found a tuple of Tensor\."),
    ],
)
def test_inputs_that_do_not_fit_are_told_of(inputs: Any, message: str) -> None:
    with raises(ValueError, match=message):
        predict(NETWORK, inputs, "a")


@mark.parametrize(
    ("inputs", "found"),
    [
        (pd.DataFrame(np.zeros((2, 6))), r"Found a DataFrame\. `TableTasks.transform` makes"),
        ("x.csv", r"Found a str\."),
        (3, r"Found an int\."),
    ],
)
def test_what_are_no_inputs_is_told(inputs: Any, found: str) -> None:
    with raises(TypeError, match="`inputs` should be an array, .*" + found):
        predict(NETWORK, inputs, "a")
