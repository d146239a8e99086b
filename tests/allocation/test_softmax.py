"""Shares of each task by a softmax."""

import torch
from pytest import mark, raises
from torch.func import vmap
from torch.testing import assert_close

from allotment import extract
from allotment.allocation import SoftmaxMatrix
from allotment.modules import MultiTaskNetwork
from tests.allocation.ways import (
    assert_every_parameter_moves,
    assert_runs_train_together,
    both_schedules,
)
from tests.training.toy import N_INPUTS, a_network, fitted


def a_matrix() -> SoftmaxMatrix:
    matrix = SoftmaxMatrix(3, 4)
    with torch.no_grad():
        matrix.logits.copy_(torch.randn(3, 4))
    return matrix


def softmax_network() -> MultiTaskNetwork:
    return a_network(SoftmaxMatrix(2, 3))


def test_shares_start_equal() -> None:
    matrix = SoftmaxMatrix(3, 4)
    for shares in (matrix.matrix(), matrix.probabilities().detach()):
        assert_close(shares, torch.full((3, 4), 0.25), rtol=0, atol=0)
    assert_close(matrix.weights(1).detach(), torch.full((4,), 0.25), rtol=0, atol=0)


def test_shares_are_the_softmax_of_a_row() -> None:
    matrix = SoftmaxMatrix(2, 3)
    with torch.no_grad():
        matrix.logits[1] = torch.tensor([1.0, 2.0, 6.0]).log()
    expected = torch.tensor([1.0, 2.0, 6.0]) / 9
    assert_close(matrix.weights(1).detach(), expected)
    assert_close(matrix.matrix()[1], expected)
    assert not matrix.matrix().requires_grad


def test_the_gradient_is_that_of_a_softmax_and_of_the_tasks_row_alone() -> None:
    matrix = a_matrix().double()
    upstream = torch.tensor([1.0, -2.0, 0.5, 3.0]).double()
    shares = matrix.weights(1)
    (shares * upstream).sum().backward()
    p = shares.detach()
    assert matrix.logits.grad is not None
    assert_close(matrix.logits.grad[1], p * (upstream - (p * upstream).sum()))
    assert (matrix.logits.grad[[0, 2]] == 0).all()


def test_tasks_of_several_runs_find_their_rows() -> None:
    matrix, tasks = a_matrix(), torch.tensor([2, 0, 2])
    assert_close(vmap(matrix.weights)(tasks), matrix.probabilities()[tasks])
    assert_close(matrix.probabilities(torch.tensor(1)), matrix.probabilities(1), rtol=0, atol=0)


def test_what_it_says_of_itself() -> None:
    matrix = SoftmaxMatrix(2, 3)
    assert (matrix.is_binary, matrix.sees_examples, matrix.is_learnt) == (False, False, True)
    assert (matrix.n_noise, matrix.n_batches) == (0, None)
    assert repr(matrix) == "SoftmaxMatrix(n_tasks=2, n_components=3)"


@mark.usefixtures("double")
@both_schedules
def test_many_runs_train_as_one_program(schedule: str) -> None:
    assert_runs_train_together(softmax_network, schedule)


def test_training_moves_the_shares() -> None:
    assert_every_parameter_moves(softmax_network)


def test_a_task_is_extracted() -> None:
    network = softmax_network()
    fitted(network)
    x = torch.randn(7, N_INPUTS)
    assert_close(extract(network, 1)(x), network(x, 1), rtol=0, atol=1e-6)


def test_there_is_a_component() -> None:
    with raises(ValueError, match=r"`n_components` should be at least 1\. Found .* = 0`"):
        SoftmaxMatrix(2, 0)
