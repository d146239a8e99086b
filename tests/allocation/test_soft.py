"""Soft gates: their weights by hand, and what becomes of them in evaluation."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise

import torch
from pytest import mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import extract
from allotment.allocation import SoftMatrix
from tests.allocation.ways import (
    assert_runs_together_end_as_one_alone,
    assert_tasks_are_batched_over,
    both_schedules,
)
from tests.training.toy import N_INPUTS, a_network, fitted

P = [[0.2, 0.5, 0.9], [0.3, 0.4, 0.1]]


def test_weights_are_gates_over_their_sum() -> None:
    matrix = SoftMatrix(2, 3, p_init=P)
    for task, p in enumerate(P):
        expected = torch.tensor(p) / sum(p)
        assert_close(matrix.weights(task).detach(), expected)
    assert_close(matrix.probabilities().detach(), torch.tensor(P))


def test_nothing_is_drawn() -> None:
    matrix = SoftMatrix(2, 3, p_init=P)
    noise, state = torch.rand(3), torch.get_rng_state()
    assert_close(matrix.weights(0), matrix.weights(0, noise=noise), rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert matrix.n_noise == 0


@mark.usefixtures("double")
def test_the_gradient_agrees_with_one_by_hand_and_with_finite_differences() -> None:
    matrix, h = SoftMatrix(2, 3, p_init=P), 1e-6
    upstream = torch.tensor([1.0, -2.0, 0.7])
    (matrix.weights(0) * upstream).sum().backward()
    p = torch.tensor(P[0])
    weights = p / p.sum()
    # d w_i / d l_j = w_i (1[i = j] - w_j) (1 - p_j)
    by_hand = weights * (1 - p) * (upstream - (weights * upstream).sum())

    def value(logits: Tensor) -> Tensor:
        return (torch.sigmoid(logits) / torch.sigmoid(logits).sum() * upstream).sum()

    start, steps = torch.logit(p), h * torch.eye(3)
    differences = torch.stack([(value(start + e) - value(start - e)) / (2 * h) for e in steps])
    assert matrix.logits.grad is not None
    assert_close(matrix.logits.grad[0], by_hand)
    assert_close(matrix.logits.grad[0], differences, rtol=1e-6, atol=1e-9)
    assert (matrix.logits.grad[1] == 0).all()


def test_evaluation_averages_what_is_at_least_half_open() -> None:
    matrix = SoftMatrix(2, 3, p_init=P).eval()
    assert_close(matrix.weights(0), torch.tensor([0.0, 0.5, 0.5]))
    assert_close(matrix.matrix()[0], torch.tensor([0.0, 1.0, 1.0]))
    assert matrix.is_binary and matrix.same_in_evaluation


def test_a_task_without_such_a_gate_keeps_its_largest_one() -> None:
    matrix = SoftMatrix(2, 3, p_init=P).eval()
    assert_close(matrix.weights(1), torch.tensor([0.0, 1.0, 0.0]))
    assert_close(matrix.matrix()[1], torch.tensor([0.0, 1.0, 0.0]))


def test_soft_evaluation_keeps_the_weights_of_training() -> None:
    matrix = SoftMatrix(2, 3, p_init=P, evaluation="soft")
    in_training = torch.stack([matrix.weights(task) for task in range(2)])
    matrix.eval()
    assert_close(torch.stack([matrix.weights(task) for task in range(2)]), in_training)
    assert_close(matrix.matrix(), in_training.detach())
    assert_close(matrix.probabilities(), in_training)
    assert not matrix.is_binary


def test_gates_that_are_all_but_shut_still_give_weights_and_gradients() -> None:
    matrix = SoftMatrix(1, 3)
    with torch.no_grad():
        matrix.logits.fill_(-200.0)  # sigmoid of it is 0 in single precision
    weights = matrix.weights(0)
    assert_close(weights.detach(), torch.full((3,), 1 / 3))
    (weights * torch.tensor([1.0, -2.0, 0.7])).sum().backward()
    assert matrix.logits.grad is not None and (matrix.logits.grad != 0).all()


def test_gates_that_start_alike_come_apart_where_components_differ() -> None:
    network = a_network(SoftMatrix(2, 3), [nn.Linear(4, 1), nn.Linear(4, 1)])
    fitted(network, rounds=40, allocation_learning_rate=0.05)
    allocation = network.modular_layers[0].allocation
    spread = allocation.probabilities().std(dim=1)
    assert (spread > 0.02).all()
    x = torch.randn(7, N_INPUTS)
    assert_close(extract(network, 1)(x), network.eval()(x, 1), rtol=0, atol=1e-6)


def test_tasks_are_batched_over() -> None:
    for evaluation in ("most_likely", "soft"):
        p_init = torch.rand(3, 4) * 0.8 + 0.1
        assert_tasks_are_batched_over(SoftMatrix(3, 4, p_init=p_init, evaluation=evaluation))


@mark.usefixtures("double")
@both_schedules
def test_runs_together_end_as_one_alone(schedule: str) -> None:
    state = assert_runs_together_end_as_one_alone(lambda: SoftMatrix(2, 3), schedule=schedule)
    assert (state["layers.0.allocation.logits"].abs() > 0.01).all()


@mark.parametrize(
    ("evaluation", "expectation"),
    [
        ("most_likely", does_not_raise()),
        ("soft", does_not_raise()),
        ("hard", raises(ValueError, match=r"one of 'most_likely', 'soft'\. Found .*'hard'")),
    ],
)
def test_evaluation_is_one_of_two(
    evaluation: str, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        SoftMatrix(1, 1, evaluation=evaluation)


def test_p_init_lies_between_0_and_1() -> None:
    with raises(
        ValueError, match=r"^`p_init` should be strictly between 0 and 1\. Found .* = 0\.0"
    ):
        SoftMatrix(1, 1, p_init=0.0)


def test_it_prints_its_options() -> None:
    assert repr(SoftMatrix(2, 3)) == (
        "SoftMatrix(n_tasks=2, n_components=3, evaluation='most_likely')"
    )
