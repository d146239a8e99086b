"""Straight-through gates: their draws, and a gradient in which there is no noise."""

import torch
from pytest import mark, param, raises
from torch.testing import assert_close

from allotment.allocation import GumbelMatrix, StraightThroughMatrix
from tests.allocation.ways import (
    assert_runs_together_end_as_one_alone,
    assert_tasks_are_batched_over,
    both_schedules,
)

P = torch.tensor([[0.2, 0.5, 0.9, 0.4], [0.7, 0.3, 0.6, 0.1]])


@mark.parametrize("p_open", [0.03, 0.5, 0.97])
def test_a_gate_is_open_as_often_as_its_probability_says(p_open: float) -> None:
    n = 100_000
    weights = StraightThroughMatrix(1, n, p_init=p_open).weights(0)
    standard_error = (p_open * (1 - p_open) / n) ** 0.5
    share = (weights > 0).float().mean().item()
    assert_close(share, p_open, rtol=0, atol=4 * standard_error)


def test_open_gates_share_one_weight() -> None:
    matrix = StraightThroughMatrix(2, 4, p_init=P, keeps_one=False)
    weights = matrix.weights(0, noise=torch.tensor([0.9, 0.4, 0.3, 0.7]))  # above 1 - p
    assert_close(weights.detach(), torch.tensor([1.0, 0.0, 1.0, 1.0]) / 3)
    assert_close(matrix.weights(0, noise=torch.full((4,), 0.01)).detach(), torch.zeros(4))


def test_the_same_noise_opens_the_gates_of_a_gumbel_matrix() -> None:
    matrix, other = StraightThroughMatrix(2, 4, p_init=P), GumbelMatrix(2, 4, p_init=P)
    for noise in torch.rand(50, 4):
        assert_close(matrix.weights(1, noise=noise), other.weights(1, noise=noise))


@mark.usefixtures("double")
@mark.parametrize(
    "noise",
    [
        param([0.99, 0.99, 0.99, 0.99], id="all open"),
        param([0.9, 0.1, 0.8, 0.1], id="two open"),
        param([0.1, 0.1, 0.8, 0.1], id="one open"),
        param([0.01, 0.01, 0.01, 0.01], id="none open"),
    ],
)
def test_the_gradient_is_that_of_the_probability(noise: list[float]) -> None:
    matrix = StraightThroughMatrix(2, 4, p_init=P.tolist(), keeps_one=False)
    p = torch.tensor(P[0].tolist())
    upstream = torch.tensor([1.0, -2.0, 0.7, 3.0])
    weights = matrix.weights(0, noise=torch.tensor(noise))
    (weights * upstream).sum().backward()
    gates = (torch.tensor(noise) > 1 - p).double()
    n_open = gates.sum()
    by_gate = upstream.clone()  # none open: the weights are the gates
    if n_open >= 1:  # d/d g_j of sum_i u_i g_i / S = u_j / S - sum_i u_i g_i / S^2
        by_gate = upstream / n_open - (upstream * gates).sum() / n_open**2
    assert_close(weights.detach(), gates / n_open.clamp_min(1.0), rtol=0, atol=0)
    assert matrix.logits.grad is not None
    assert_close(matrix.logits.grad[0], by_gate * p * (1 - p))  # sigmoid' of the logit
    assert (matrix.logits.grad[1] == 0).all()


def test_draws_that_open_the_same_gates_have_one_gradient() -> None:
    found = []
    for noise in ([0.9, 0.1, 0.8, 0.1], [0.99, 0.4, 0.2, 0.5]):
        matrix = StraightThroughMatrix(2, 4, p_init=P)
        (matrix.weights(0, noise=torch.tensor(noise)) * torch.arange(4.0)).sum().backward()
        found.append(matrix.logits.grad)
    assert_close(found[0], found[1], rtol=0, atol=0)


def test_evaluation_opens_what_is_at_least_half_likely() -> None:
    matrix = StraightThroughMatrix(2, 4, p_init=P).eval()
    assert_close(matrix.weights(0), torch.tensor([0.0, 0.5, 0.5, 0.0]))
    assert_close(matrix.matrix(), (P >= 0.5).float())
    assert_close(matrix.probabilities().detach(), P)
    assert (matrix.is_binary, matrix.same_in_evaluation, matrix.n_noise) == (True, True, 4)


def test_tasks_are_batched_over() -> None:
    assert_tasks_are_batched_over(StraightThroughMatrix(2, 4, p_init=P))


@mark.usefixtures("double")
@both_schedules
def test_runs_together_end_as_one_alone(schedule: str) -> None:
    def make() -> StraightThroughMatrix:
        return StraightThroughMatrix(2, 3)

    state = assert_runs_together_end_as_one_alone(make, schedule=schedule)
    assert (state["layers.0.allocation.logits"].abs() > 0.01).any()


def test_p_init_lies_between_0_and_1() -> None:
    with raises(
        ValueError, match=r"^`p_init` should be strictly between 0 and 1\. Found .* = 1\.0"
    ):
        StraightThroughMatrix(1, 1, p_init=1.0)
