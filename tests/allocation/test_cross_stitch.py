"""Mixtures of columns: where they start, and what they are worth."""

import torch
from pytest import mark, raises
from torch import nn
from torch.func import vmap
from torch.testing import assert_close

from allotment.allocation import CrossStitch
from allotment.modules import ModularLayer, MultiTaskNetwork


def test_two_tasks_start_as_published() -> None:
    expected = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    assert_close(CrossStitch(2, 2).matrix(), expected)


@mark.parametrize("n_tasks", [1, 3, 5])
def test_of_more_tasks_the_others_share_what_is_left(n_tasks: int) -> None:
    matrix = CrossStitch(n_tasks, n_tasks, own=0.7, other=0.3).matrix()
    for task in range(n_tasks):
        for column in range(n_tasks):
            expected = 0.7 if task == column else 0.3 / (n_tasks - 1)
            assert_close(matrix[task, column].item(), expected, rtol=0, atol=1e-6)


def test_a_column_of_several_components_is_averaged() -> None:
    allocation = CrossStitch(2, 6)
    expected = torch.tensor([[0.9, 0.9, 0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.9, 0.9, 0.9]]) / 3
    assert_close(allocation.matrix(), expected)
    assert_close(allocation.stream_weights([]), expected)
    assert [name for name, _ in allocation.named_parameters()] == ["table"]
    assert allocation.table.shape == (2, 2)


def test_rows_are_those_of_the_table_also_for_a_task_in_a_tensor() -> None:
    allocation = CrossStitch(3, 6)
    allocation.table.data = torch.randn(3, 3)
    rows = vmap(lambda task: allocation.weights(task))(torch.arange(3))
    assert_close(rows, allocation.stream_weights([]))
    for task in range(3):
        assert torch.equal(allocation.weights(task), rows[task])
        assert torch.equal(allocation.probabilities(torch.tensor(task)), rows[task])


def test_its_gradient_by_hand() -> None:
    allocation = CrossStitch(2, 4)
    values = torch.tensor([1.0, 3.0, 10.0, 20.0])
    (allocation.weights(1) @ values).backward()
    assert_close(allocation.table.grad, torch.tensor([[0.0, 0.0], [2.0, 15.0]]))


def test_it_mixes_the_components_of_a_plain_layer_too() -> None:
    layer = ModularLayer([nn.Linear(3, 2) for _ in range(2)], CrossStitch(2, 2))
    network, x = MultiTaskNetwork(None, [layer]), torch.randn(4, 3)
    a, b = layer.components
    assert_close(network(x, 1), 0.1 * a(x) + 0.9 * b(x))


@mark.parametrize("n_components", [1, 3])
def test_a_task_without_a_column_is_refused(n_components: int) -> None:
    rule = r"^`n_components` should be a multiple of `n_tasks`, .* Found "
    with raises(ValueError, match=rf"{rule}{n_components} components for 2 tasks"):
        CrossStitch(2, n_components)


def test_what_columns_start_at_should_be_numbers() -> None:
    with raises(TypeError, match="`own` should be a number"):
        CrossStitch(2, 2, own="much")  # type: ignore[arg-type]
