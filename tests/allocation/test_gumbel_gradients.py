"""Gradients of drawn gates, and of the weights they give."""

import torch
from pytest import mark, param
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import Annealing, GumbelMatrix

AT_TWO = Annealing(start=2.0, floor=2.0)  # a temperature that float32 holds exactly


def a_matrix(advantages: list[float]) -> GumbelMatrix:
    """Returns one task's gates in double precision, at temperature 2, with these advantages."""
    matrix = GumbelMatrix(1, len(advantages), temperature=AT_TWO).double()
    with torch.no_grad():
        matrix.logits[0, :, 0] = torch.tensor(advantages).double()
        matrix.logits[0, :, 1] = 0.0
    return matrix


def a_noise(advantages: list[float], noisy: list[float]) -> Tensor:
    """Returns the noise that takes gates of these advantages to these noisy values."""
    return torch.sigmoid(torch.tensor(noisy).double() - torch.tensor(advantages).double())


def test_the_gradient_of_a_gate_is_that_of_the_soft_one() -> None:
    advantages, noisy = [0.3, -1.2, 2.0, 0.0], [1.5, -0.4, 3.0, -2.5]
    matrix = a_matrix(advantages)
    gates = matrix.gates(0, noise=a_noise(advantages, noisy))
    assert_close(gates.detach(), torch.tensor([1.0, 0.0, 1.0, 0.0]).double())
    upstream = torch.tensor([1.0, -2.0, 0.5, 3.0]).double()
    (gates * upstream).sum().backward()
    soft = torch.sigmoid(torch.tensor(noisy).double() / 2.0)
    by_hand = upstream * soft * (1 - soft) / 2.0  # sigmoid'(noisy / tau) / tau
    assert matrix.logits.grad is not None
    assert_close(matrix.logits.grad[0, :, 0], by_hand)
    assert_close(matrix.logits.grad[0, :, 1], -by_hand)


def test_the_gradient_of_a_gate_agrees_with_finite_differences_of_the_soft_one() -> None:
    advantages, noisy, h = [0.3, -1.2, 2.0], [1.5, -0.4, 3.0], 1e-5
    matrix = a_matrix(advantages)
    noise = a_noise(advantages, noisy)
    matrix.gates(0, noise=noise).sum().backward()

    def soft(advantage: Tensor) -> Tensor:
        return torch.sigmoid((advantage + torch.logit(noise)) / 2.0)

    start = torch.tensor(advantages).double()
    differences = (soft(start + h) - soft(start - h)) / (2 * h)
    assert matrix.logits.grad is not None
    assert_close(matrix.logits.grad[0, :, 0], differences, rtol=1e-8, atol=1e-10)


@mark.parametrize(
    "noisy",
    [
        param([1.0, 2.0, 0.5], id="all open"),
        param([1.0, -2.0, 0.5], id="two open"),
        param([-1.0, 2.0, -0.5], id="one open"),
        param([-1.0, -2.0, -0.5], id="none open"),
    ],
)
def test_the_gradient_of_the_weights_goes_through_the_division(noisy: list[float]) -> None:
    advantages = [0.4, -0.3, 0.1]
    matrix = a_matrix(advantages)
    matrix.keeps_one = False
    upstream = torch.tensor([1.0, -2.0, 0.7]).double()
    weights = matrix.weights(0, noise=a_noise(advantages, noisy))
    (weights * upstream).sum().backward()
    z = torch.tensor(noisy).double()
    gates, soft = (z >= 0).double(), torch.sigmoid(z / 2.0)
    n_open = gates.sum()
    by_gate = upstream.clone()  # none open: the weights are the gates
    if n_open >= 1:  # d/d g_j of sum_i u_i g_i / S = u_j / S - sum_i u_i g_i / S^2
        by_gate = upstream / n_open - (upstream * gates).sum() / n_open**2
    assert matrix.logits.grad is not None
    assert_close(weights.detach(), gates / n_open.clamp_min(1.0))
    assert_close(matrix.logits.grad[0, :, 0], by_gate * soft * (1 - soft) / 2.0)
    assert_close(matrix.logits.grad[0, :, 1], -by_gate * soft * (1 - soft) / 2.0)


def test_the_division_agrees_with_finite_differences_where_it_is_smooth() -> None:
    advantages, noisy, h = [0.4, -0.3, 0.1, 0.0], [1.0, 2.0, 0.5, -1.0], 1e-6
    matrix = a_matrix(advantages)
    upstream = torch.tensor([1.0, -2.0, 0.7, 3.0]).double()
    (matrix.weights(0, noise=a_noise(advantages, noisy)) * upstream).sum().backward()
    z = torch.tensor(noisy).double()
    derivative = torch.sigmoid(z / 2.0) * (1 - torch.sigmoid(z / 2.0)) / 2.0

    def value(gates: Tensor) -> Tensor:
        return (upstream * gates / max(float(gates.sum()), 1.0)).sum()

    gates, steps = (z >= 0).double(), h * torch.eye(4).double()
    differences = torch.stack([(value(gates + e) - value(gates - e)) / (2 * h) for e in steps])
    assert matrix.logits.grad is not None
    assert_close(matrix.logits.grad[0, :, 0], differences * derivative, rtol=1e-6, atol=1e-9)


def test_the_sole_open_gate_gets_no_gradient_while_shut_ones_do() -> None:
    advantages = [0.0, 0.0, 0.0]
    matrix = a_matrix(advantages)
    upstream = torch.tensor([1.0, -2.0, 0.7]).double()
    weights = matrix.weights(0, noise=a_noise(advantages, [-1.0, 1.0, -0.5]))
    (weights * upstream).sum().backward()
    assert matrix.logits.grad is not None
    gradient = matrix.logits.grad[0, :, 0]
    assert gradient[1] == 0.0
    assert (gradient[[0, 2]] > 0.01).all()  # upstream is larger for both than for the open one


def test_the_gradient_of_a_batch_is_zero_in_the_rows_of_other_tasks() -> None:
    matrix = GumbelMatrix(3, 4)
    (matrix.weights(1) * torch.arange(4.0)).sum().backward()
    gradient = matrix.logits.grad
    assert gradient is not None and gradient.shape == (3, 4, 2)
    assert (gradient[[0, 2]] == 0).all() and (gradient[1] != 0).any()
