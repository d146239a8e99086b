"""Gates of L0 regularisation: the published formulas, and the weights they become."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from math import exp, log

import torch
from pytest import approx, mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import (
    HardConcreteMatrix,
    hard_concrete,
    hard_concrete_mean,
    hard_concrete_open,
)
from tests.allocation.ways import (
    assert_runs_together_end_as_one_alone,
    assert_tasks_are_batched_over,
    both_schedules,
)


def a_matrix(log_alpha: list[float], **options: object) -> HardConcreteMatrix:
    """Returns one task's gates in double precision."""
    matrix = HardConcreteMatrix(1, len(log_alpha), **options).double()  # type: ignore[arg-type]
    with torch.no_grad():
        matrix.log_alpha[0] = doubles(log_alpha)
    return matrix


def doubles(values: float | list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def by_hand(log_alpha: float, u: float) -> float:
    """Returns one draw as the publication writes it."""
    s = 1 / (1 + exp(-(log(u) - log(1 - u) + log_alpha) / (2 / 3)))
    return min(1.0, max(0.0, s * (1.1 - -0.1) + -0.1))


@mark.parametrize("log_alpha", [-3.0, -0.4, 0.0, 1.7])
@mark.parametrize("u", [0.01, 0.3, 0.5, 0.81, 0.999])
def test_a_draw_is_the_published_formula(log_alpha: float, u: float) -> None:
    found = hard_concrete(doubles(log_alpha), doubles(u))
    assert found.item() == approx(by_hand(log_alpha, u), rel=1e-12, abs=1e-12)


def test_literals_of_the_published_formulas() -> None:
    zero = torch.zeros(()).double()
    assert hard_concrete(zero, doubles(0.5)).item() == approx(0.5)
    assert hard_concrete_mean(zero).item() == approx(0.5)
    assert hard_concrete_open(zero).item() == approx(1 / (1 + (1 / 11) ** (2 / 3)))
    ends = doubles([-log(11), log(11)])  # sigmoid of 1 / 12 and of 11 / 12
    assert_close(hard_concrete_mean(ends), doubles([0.0, 1.0]), rtol=0, atol=1e-12)


@mark.parametrize("log_alpha", [-2.0, 0.0, 1.5])
def test_gates_are_above_zero_as_often_as_their_probability_says(log_alpha: float) -> None:
    n = 100_000
    gates = hard_concrete(torch.full((n,), log_alpha), torch.rand(n).clamp_min(1e-30))
    p_open = hard_concrete_open(torch.tensor(log_alpha)).item()
    p_full = hard_concrete_open(torch.tensor(-log_alpha)).item()  # below 1, by symmetry
    for found, p in (((gates > 0), p_open), ((gates < 1), p_full)):
        assert found.float().mean().item() == approx(p, abs=4 * (p * (1 - p) / n) ** 0.5)


def test_the_gradient_of_a_draw_agrees_with_finite_differences_and_ends_at_the_limits() -> None:
    log_alpha = doubles([0.3, -1.0, 0.9, -4.0, 6.0]).requires_grad_()
    noise, h = doubles([0.4, 0.7, 0.2, 0.3, 0.6]), 1e-6
    hard_concrete(log_alpha, noise).sum().backward()
    start = log_alpha.detach()
    differences = (hard_concrete(start + h, noise) - hard_concrete(start - h, noise)) / (2 * h)
    assert log_alpha.grad is not None
    assert_close(log_alpha.grad, differences, rtol=1e-7, atol=1e-9)
    assert (log_alpha.grad[:3] > 0.1).all() and (log_alpha.grad[3:] == 0).all()


def test_noise_is_no_parameter_and_gets_no_gradient() -> None:
    matrix = HardConcreteMatrix(2, 3)
    assert [name for name, _ in matrix.named_parameters()] == ["log_alpha"]
    noise, state = torch.rand(3), torch.get_rng_state()
    assert_close(matrix.weights(0, noise=noise), matrix.weights(0, noise=noise), rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(matrix.weights(0), matrix.weights(0))  # drawn anew


@mark.parametrize(
    ("log_alpha", "gates"),
    [
        ([9.0, 9.0, -9.0], [1.0, 1.0, 0.0]),
        ([9.0, 0.0, -9.0], [1.0, 0.5, 0.0]),
        ([-9.0, 0.0, -9.0], [0.0, 0.5, 0.0]),
        ([-9.0, -9.0, -9.0], [0.0, 0.0, 0.0]),
    ],
)
@mark.parametrize("is_training", [True, False])
def test_gates_become_weights(
    log_alpha: list[float], gates: list[float], is_training: bool
) -> None:
    expected = doubles(gates)
    half = torch.full((3,), 0.5).double()
    for reduce in ("mean", "sum"):
        matrix = a_matrix(log_alpha, reduce=reduce).train(is_training)
        assert_close(matrix.gates(0, noise=half), expected)
        divisor = max(1.0, sum(gates)) if reduce == "mean" else 1.0
        assert_close(matrix.weights(0, noise=half), expected / divisor)


def test_the_gradient_of_the_weights_agrees_with_finite_differences() -> None:
    log_alpha, h = [0.3, -1.0, 0.9], 1e-6
    noise = doubles([0.6, 0.7, 0.5])
    upstream = doubles([1.0, -2.0, 0.7])

    def value(at: list[float]) -> Tensor:
        return (a_matrix(at).weights(0, noise=noise) * upstream).sum()

    matrix = a_matrix(log_alpha)
    (matrix.weights(0, noise=noise) * upstream).sum().backward()
    for place in range(3):
        up, down = list(log_alpha), list(log_alpha)
        up[place], down[place] = up[place] + h, down[place] - h
        assert matrix.log_alpha.grad is not None
        found = matrix.log_alpha.grad[0, place].item()
        assert found == approx((value(up) - value(down)).item() / (2 * h), rel=1e-6)


def test_extreme_noise_gives_finite_gates_and_gradients() -> None:
    noise = torch.tensor([torch.finfo(torch.float32).tiny, 1e-7, 0.5, 1 - 2**-24])
    matrix = HardConcreteMatrix(1, 4)
    gates = matrix.gates(0, noise=noise)
    gates.sum().backward()
    assert ((gates >= 0) & (gates <= 1)).all()
    assert matrix.log_alpha.grad is not None and matrix.log_alpha.grad.isfinite().all()


def test_a_prior_is_each_gates_probability_to_be_open_at_the_start() -> None:
    p_init = torch.tensor([[0.1, 0.5, 0.9], [0.2, 0.6, 0.3]])
    assert_close(HardConcreteMatrix(2, 3, p_init=p_init).probabilities(), p_init)


def test_open_gates_are_charged_by_their_expected_number() -> None:
    p_init = [[0.1, 0.5, 0.9], [0.2, 0.6, 0.3]]
    matrix = HardConcreteMatrix(2, 3, p_init=p_init, l0_weight=0.5)
    for task in range(2):
        charge = matrix.auxiliary_loss(task, torch.tensor(3.0), torch.zeros(3))
        assert charge is not None and charge.item() == approx(0.5 * sum(p_init[task]))
    assert HardConcreteMatrix(2, 3).auxiliary_loss(0, torch.tensor(3.0), torch.zeros(3)) is None


def test_the_matrix_holds_the_gates_of_evaluation() -> None:
    matrix = HardConcreteMatrix(2, 3, p_init=[[0.2, 0.5, 0.99], [0.32, 0.6, 0.29]]).eval()
    assert_close(matrix.matrix()[1], matrix.gates(1).detach())
    # It shuts below a probability of 0.31: sigmoid(-log(11) + 2 / 3 log(11)).
    assert (matrix.matrix() == 0).tolist() == [[True, False, False], [False, False, True]]
    assert matrix.matrix()[0, 2] == 1 and not matrix.is_binary


def test_tasks_are_batched_over() -> None:
    assert_tasks_are_batched_over(HardConcreteMatrix(3, 4, p_init=torch.rand(3, 4) * 0.8 + 0.1))


@mark.usefixtures("double")
@both_schedules
def test_runs_together_end_as_one_alone(schedule: str) -> None:
    def make() -> HardConcreteMatrix:
        return HardConcreteMatrix(2, 3, l0_weight=0.1)

    state = assert_runs_together_end_as_one_alone(make, schedule=schedule)
    start = make().log_alpha
    assert (state["layers.0.allocation.log_alpha"] - start).abs().min() > 0.01


@mark.parametrize(
    ("l0_weight", "expectation"),
    [
        (-0.1, raises(ValueError, match=r"^`l0_weight` should be at least 0\.0\. Found .* -0\.1")),
        (0.0, does_not_raise()),
        (2, does_not_raise()),
    ],
)
def test_l0_weight_range(l0_weight: float, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        HardConcreteMatrix(1, 1, l0_weight=l0_weight)


@mark.parametrize(
    ("reduce", "expectation"),
    [
        ("mean", does_not_raise()),
        ("sum", does_not_raise()),
        (
            "max",
            raises(ValueError, match=r"`reduce` should be one of 'sum', 'mean'\. Found .*'max'"),
        ),
    ],
)
def test_reduce_is_one_of_two(reduce: str, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        HardConcreteMatrix(1, 1, reduce=reduce)


def test_p_init_lies_between_0_and_1() -> None:
    with raises(
        ValueError, match=r"^`p_init` should be strictly between 0 and 1\. Found .* = 1\.0"
    ):
        HardConcreteMatrix(1, 1, p_init=1.0)


def test_it_prints_its_options() -> None:
    assert repr(HardConcreteMatrix(2, 3)) == (
        "HardConcreteMatrix(n_tasks=2, n_components=3, l0_weight=0.0, reduce='mean')"
    )
