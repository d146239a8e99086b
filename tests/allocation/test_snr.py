"""Connections of sub-network routing: shared by tasks but for the last, drawn, and charged."""

from typing import Any

import torch
from pytest import mark, raises
from torch.func import vmap
from torch.testing import assert_close

from allotment.allocation import SNR, hard_concrete, hard_concrete_mean, hard_concrete_open


def inner(**options: Any) -> SNR:
    allocation = SNR(2, 3, n_streams=4, **options)
    allocation.log_alpha.data = torch.randn(4, 3)
    return allocation


def last(**options: Any) -> SNR:
    allocation = SNR(2, 3, **options)
    allocation.log_alpha.data = torch.randn(2, 3)
    return allocation


def test_noise_becomes_the_variable_of_each_connection() -> None:
    allocation, noise = inner(), torch.rand(12)
    assert allocation.n_noise == 12
    expected = hard_concrete(allocation.log_alpha, noise.view(4, 3))
    assert_close(allocation.stream_weights([], noise=noise), expected)
    # By hand, for one of them: the published limits -0.1 and 1.1, and temperature 2 / 3.
    u, a = noise[7], allocation.log_alpha[2, 1]
    s = torch.sigmoid((torch.log(u) - torch.log(1 - u) + a) / (2 / 3))
    assert_close(expected[2, 1], (1.2 * s - 0.1).clamp(0, 1))


def test_at_the_last_layer_a_task_has_its_row() -> None:
    allocation, noise = last(), torch.rand(3)
    assert allocation.n_noise == 3
    for task in range(2):
        expected = hard_concrete(allocation.log_alpha[task], noise)
        assert_close(allocation.weights(task, noise=noise), expected)
        assert_close(allocation.weights(torch.tensor(task), noise=noise), expected)
    allocation.eval()
    rows = vmap(lambda task: allocation.weights(task))(torch.arange(2))
    assert_close(rows, hard_concrete_mean(allocation.log_alpha))


def test_connections_start_open_with_the_given_probability() -> None:
    p, n = 0.7, 20_000
    allocation = SNR(2, 3, n_streams=4, p_init=p)
    assert_close(allocation.probabilities(), torch.full((2, 3), p))
    drawn = vmap(lambda u: allocation.stream_weights([], noise=u))(torch.rand(n, 12))
    standard_error = (p * (1 - p) / (12 * n)) ** 0.5
    assert_close((drawn > 0).float().mean().item(), p, rtol=0, atol=4 * standard_error)


def test_without_noise_a_training_pass_draws_and_evaluation_does_not() -> None:
    allocation = inner()
    a, b = allocation.stream_weights([]), allocation.stream_weights([])
    assert not torch.equal(a, b)
    allocation.eval()
    expected = hard_concrete_mean(allocation.log_alpha)
    assert torch.equal(allocation.stream_weights([], noise=torch.rand(12)), expected)


def test_noise_is_nothing_that_is_learnt() -> None:
    assert [name for name, _ in inner().named_parameters()] == ["log_alpha"]
    assert [name for name, _ in last().named_parameters()] == ["log_alpha"]


def test_matrices_are_means_over_connections_the_same_for_all_tasks() -> None:
    allocation = inner()
    gates, p_open = (f(allocation.log_alpha) for f in (hard_concrete_mean, hard_concrete_open))
    for task in range(2):
        assert_close(allocation.matrix()[task], gates.mean(0).detach())
        assert_close(allocation.probabilities(torch.tensor(task)), p_open.mean(0))
    assert_close(allocation.eval().weights(0), gates.mean(0))
    assert_close(last().matrix().shape, (2, 3))


def test_the_charge_is_the_expected_number_of_open_connections() -> None:
    loss = torch.tensor(3.0)
    allocation = inner(l0_weight=0.2)
    expected = 0.2 * hard_concrete_open(allocation.log_alpha).sum()
    found = allocation.auxiliary_loss(0, loss, allocation.stream_weights([]))
    assert found is not None
    assert_close(found, expected)
    found.backward()
    p_open = hard_concrete_open(allocation.log_alpha.detach())
    assert_close(allocation.log_alpha.grad, 0.2 * p_open * (1 - p_open))
    of_task = last(l0_weight=0.2)
    charge = of_task.auxiliary_loss(torch.tensor(1), loss, of_task.weights(1))
    assert_close(charge, 0.2 * hard_concrete_open(of_task.log_alpha[1]).sum())
    assert inner().auxiliary_loss(0, loss, loss) is None


@mark.parametrize(
    ("options", "message"),
    [
        ({"n_streams": -1}, "`n_streams` should be at least 0"),
        ({"n_streams": 1.5}, "`n_streams` should be a whole number"),
        ({"p_init": 0.0}, "`p_init` should be"),
        ({"p_init": 1.0}, "`p_init` should be"),
        ({"l0_weight": -0.1}, "`l0_weight` should be at least 0"),
    ],
)
def test_bad_values_are_refused(options: dict[str, Any], message: str) -> None:
    with raises((ValueError, TypeError), match=message):
        SNR(2, 3, **options)
