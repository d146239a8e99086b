"""A task's outputs for new inputs, in every form they may come in."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

pytest.importorskip("pandas", reason="pandas is not installed here")
import numpy as np
import pandas as pd
import torch
from pytest import mark, param, raises
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.data import DataLoader, TensorDataset

from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskModel
from allotment.tasks import MultiLabel, Split, Task
from allotment.training import evaluate, fit, predict
from tests.training.toy import N_INPUTS, SETTINGS, a_network

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


class Inputs(Mapping[str, Tensor]):
    """A mapping that is no dict, as the tokenizers of Hugging Face return."""

    def __init__(self, **parts: Tensor) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Tensor:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class Doubled(nn.Module):
    """Takes two inputs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = ModularLayer([nn.Linear(3, 2), nn.Linear(3, 2)], SharedBottom(1, 2))

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        y: Tensor = self.layer(x * times)
        return y


def test_any_mapping_is_a_dict_of_inputs() -> None:
    x, times, y = torch.randn(6, 3), torch.full((6, 1), 2.0), torch.tensor([0, 1] * 3)
    network = MultiTaskModel(Doubled(), task_names=["t"])
    own, plain = Inputs(x=x, times=times), {"x": x, "times": times}
    expected = predict(network, plain, "t")
    assert_close(predict(network, own, "t"), expected)
    assert_close(predict(network, [own, (own, y)], "t"), torch.cat([expected, expected]))
    assert_close(predict(network, own, "t", batch_size=4), expected)
    some = torch.tensor([0, -100, 1, 0, 1, 0])
    for source in ((own, y), lambda: iter([(own, y)]), MultiLabel([(own, {"t": some})])):
        task = Task("t", source, test=source, n_outputs=2)
        assert fit(network, [task], SETTINGS.changed(rounds=10)).failed_step is None
        assert evaluate(network, [task], "train").losses > 0
