"""The Gumbel-Matrix: its draws, its temperature, and what it refuses."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise
from typing import Any

import torch
from pytest import mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment.allocation import Annealing, GumbelMatrix


def assert_binary(gates: Tensor) -> None:
    """Asserts that every gate is exactly open or exactly shut."""
    assert ((gates == 0) | (gates == 1)).all(), gates


@mark.parametrize("p_open", [0.03, 0.5, 0.97])
@mark.parametrize("evaluation", ["training", "sampled"])
def test_a_gate_is_open_as_often_as_its_probability_says(p_open: float, evaluation: str) -> None:
    n = 100_000
    matrix = GumbelMatrix(1, n, p_init=p_open, evaluation="sampled")
    matrix.train(evaluation == "training")
    standard_error = (p_open * (1 - p_open) / n) ** 0.5
    share = matrix.gates(0).mean().item()
    assert_close(share, p_open, rtol=0, atol=4 * standard_error)


def test_the_frequency_is_the_same_at_any_temperature() -> None:
    n, p_open = 100_000, 0.2
    standard_error = (p_open * (1 - p_open) / n) ** 0.5
    for temperature in (50.0, 0.5):
        annealing = Annealing(start=temperature, floor=temperature)
        matrix = GumbelMatrix(1, n, p_init=p_open, temperature=annealing)
        share = matrix.gates(0).mean().item()
        assert_close(share, p_open, rtol=0, atol=4 * standard_error)


def test_two_draws_are_independent() -> None:
    n = 100_000
    matrix = GumbelMatrix(1, n, p_init=0.5)
    both_open = (matrix.gates(0) * matrix.gates(0)).mean().item()
    assert_close(both_open, 0.25, rtol=0, atol=4 * (0.25 * 0.75 / n) ** 0.5)


def test_gates_are_exactly_binary_over_many_draws() -> None:
    matrix = GumbelMatrix(1, 10_000, p_init=0.3)
    for n_batches in (0, 10, 1_000, 9_999, 100_000):
        matrix.n_batches.fill_(n_batches)
        for _ in range(10):
            assert_binary(matrix.gates(0))


def test_extreme_noise_gives_binary_gates_and_finite_gradients() -> None:
    tiny = torch.finfo(torch.float32).tiny
    noise = torch.tensor([tiny, 1e-7, 0.5, 1 - 2**-24])
    matrix = GumbelMatrix(1, 4, temperature=Annealing(start=0.5, floor=0.5))
    gates = matrix.gates(0, noise=noise)
    assert_binary(gates)
    gates.sum().backward()
    assert matrix.logits.grad is not None and matrix.logits.grad.isfinite().all()


def test_a_gate_opens_where_its_noise_exceeds_the_probability_to_be_shut() -> None:
    prior = torch.linspace(0.1, 0.9, 9).view(1, 9)
    matrix = GumbelMatrix(1, 9, p_init=prior, keeps_one=False)
    for u in (0.05, 0.36, 0.64, 0.95):
        expected = (u > 1 - prior[0]).float()
        assert_close(matrix.gates(0, noise=torch.full((9,), u)), expected, rtol=0, atol=0)


@mark.parametrize("is_training", [True, False])
def test_no_open_gate_gives_weights_of_zero(is_training: bool) -> None:
    matrix = GumbelMatrix(1, 3, p_init=0.1, keeps_one=False).train(is_training)
    weights = matrix.weights(0, noise=torch.full((3,), 0.2))
    assert_close(weights.detach(), torch.zeros(3), rtol=0, atol=0)


def test_open_gates_share_one_weight() -> None:
    matrix = GumbelMatrix(1, 4)
    weights = matrix.weights(0, noise=torch.tensor([0.9, 0.1, 0.8, 0.7]))
    assert_close(weights.detach(), torch.tensor([1.0, 0.0, 1.0, 1.0]) / 3)


def test_the_count_of_batches_is_advanced_by_hand_and_not_by_a_draw() -> None:
    matrix = GumbelMatrix(2, 3)
    for n_batches in range(5):
        matrix.weights(n_batches % 2)
        assert matrix.n_batches.item() == n_batches
        matrix.advance()


def test_the_temperature_of_a_draw_is_that_of_the_batches_so_far() -> None:
    matrix = GumbelMatrix(1, 1, temperature=Annealing(start=4.0, floor=0.5))
    for n_batches in (0, 3, 80):
        matrix.n_batches.fill_(n_batches)
        matrix.zero_grad()
        matrix.gates(0, noise=torch.tensor([0.7])).sum().backward()
        tau = max(0.5, 4.0 / (n_batches + 1) ** 0.5)
        soft = torch.sigmoid(torch.logit(torch.tensor(0.7)) / tau)
        assert matrix.logits.grad is not None
        assert_close(matrix.logits.grad[0, 0, 0], soft * (1 - soft) / tau)


def test_a_draw_from_noise_that_is_handed_in_is_pure() -> None:
    matrix = GumbelMatrix(1, 5)
    noise, state = torch.rand(5), torch.get_rng_state()
    first = matrix.weights(0, noise=noise)
    assert_close(matrix.weights(0, noise=noise), first, rtol=0, atol=0)
    assert matrix.n_batches.item() == 0
    assert torch.equal(torch.get_rng_state(), state)


@mark.parametrize("prefix", ["", "layers.0.allocation."])
def test_a_state_of_version_0_1_is_read(prefix: str) -> None:
    old = GumbelMatrix(2, 3, p_init=torch.rand(2, 3) * 0.8 + 0.1)
    state = {f"{prefix}logits": old.logits.detach(), f"{prefix}n_draws": torch.tensor(7)}
    matrix = GumbelMatrix(2, 3)
    holder: nn.Module = matrix
    for name in reversed(prefix.split(".")[:-1]):
        holder = nn.ModuleDict({name: holder})
    holder.load_state_dict(state)
    assert_close(matrix.logits, old.logits, rtol=0, atol=0)
    assert matrix.n_batches.item() == 7
    assert list(state) == [f"{prefix}logits", f"{prefix}n_draws"]  # the caller's own stays


def test_the_count_of_batches_goes_through_a_state() -> None:
    matrix, other = GumbelMatrix(2, 3), GumbelMatrix(2, 3)
    matrix.advance()
    other.load_state_dict(matrix.state_dict())
    assert other.n_batches.item() == 1


@mark.parametrize(("evaluation", "same"), [("most_likely", True), ("sampled", False)])
def test_what_it_says_of_itself(evaluation: str, same: bool) -> None:
    matrix = GumbelMatrix(2, 3, evaluation=evaluation)
    assert (matrix.is_learnt, matrix.is_binary, matrix.sees_examples) == (True, True, False)
    assert matrix.n_noise == 3
    assert matrix.same_in_evaluation is same
    assert not matrix.requires_grad_(False).is_learnt


def test_most_likely_evaluation_opens_a_gate_at_equality() -> None:
    matrix = GumbelMatrix(1, 3).eval()
    with torch.no_grad():
        matrix.logits[0, :, 0] = torch.tensor([1.0, 1.0 - 1e-6, 1.0 + 1e-6])
        matrix.logits[0, :, 1] = 1.0
    expected = torch.tensor([1.0, 0.0, 1.0])
    assert_close(matrix.gates(0), expected)
    assert_close(matrix.matrix(), expected.unsqueeze(0))
    assert_close(matrix.weights(0), expected / 2)


def test_most_likely_evaluation_ignores_noise() -> None:
    matrix = GumbelMatrix(1, 2, p_init=0.9).eval()
    assert_close(matrix.gates(0, noise=torch.full((2,), 1e-6)), torch.ones(2))


def test_a_number_is_every_gates_probability_at_the_start() -> None:
    matrix = GumbelMatrix(2, 3, p_init=0.97)
    assert_close(matrix.probabilities(), torch.full((2, 3), 0.97))
    assert_close(matrix.logits[..., 0].detach(), torch.full((2, 3), 0.97).log())
    assert_close(matrix.logits[..., 1].detach(), (1 - torch.full((2, 3), 0.97)).log())


@mark.parametrize("as_list", [True, False])
def test_a_prior_is_each_gates_probability_at_the_start(as_list: bool) -> None:
    prior = torch.tensor([[0.1, 0.5, 0.9], [0.2, 0.6, 0.3]])
    matrix = GumbelMatrix(2, 3, p_init=prior.tolist() if as_list else prior)
    assert_close(matrix.probabilities(), prior)
    assert_close(matrix.probabilities(1), prior[1])
    assert_close(matrix.matrix(), torch.tensor([[0.0, 1.0, 1.0], [0.0, 1.0, 0.0]]))


def test_a_prior_is_copied() -> None:
    prior = torch.full((2, 3), 0.5)
    matrix = GumbelMatrix(2, 3, p_init=prior)
    prior.fill_(0.9)
    assert_close(matrix.probabilities(), torch.full((2, 3), 0.5))


def strictly_between(found: str) -> AbstractContextManager[object]:
    return raises(
        ValueError,
        match=rf"^`p_init` should be strictly between 0 and 1\. Found `p_init = {found}`\.$",
    )


@mark.parametrize(
    ("p_init", "expectation"),
    [
        (-0.1, strictly_between("-0.1")),
        (0.0, strictly_between("0.0")),
        (0.001, does_not_raise()),
        (0.999, does_not_raise()),
        (1.0, strictly_between("1.0")),
        (1.4, strictly_between("1.4")),
        (float("nan"), strictly_between("nan")),
        ([[0.5, 0.5, 0.5], [0.5, 0.5, 0.999]], does_not_raise()),
        ([[0.5, 0.5, 0.5], [0.5, 0.5, 1.0]], strictly_between("1.0")),
    ],
)
def test_p_init_range(
    p_init: float | list[list[float]], expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        GumbelMatrix(2, 3, p_init=p_init)


@mark.parametrize(
    ("shape", "expectation"),
    [
        ((2, 3), does_not_raise()),
        ((), does_not_raise()),
        ((3,), raises(ValueError, match=r"of shape \[2, 3\]\. Found shape \[3\]\.")),
        ((3, 2), raises(ValueError, match=r"of shape \[2, 3\]\. Found shape \[3, 2\]\.")),
        ((2, 3, 1), raises(ValueError, match=r"of shape \[2, 3\]\. Found shape \[2, 3, 1\]\.")),
    ],
)
def test_p_init_shape(shape: tuple[int, ...], expectation: AbstractContextManager[object]) -> None:
    with expectation:
        GumbelMatrix(2, 3, p_init=torch.full(shape, 0.5))


@mark.parametrize(
    ("n_tasks", "n_components", "expectation"),
    [
        (1, 1, does_not_raise()),
        (0, 1, raises(ValueError, match=r"`n_tasks` should be at least 1\. Found `n_tasks = 0`")),
        (1, 0, raises(ValueError, match=r"`n_components` should be at least 1\. Found .* = 0`")),
    ],
)
def test_there_is_a_task_and_a_component(
    n_tasks: int, n_components: int, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        GumbelMatrix(n_tasks, n_components)


@mark.parametrize(
    ("evaluation", "expectation"),
    [
        ("most_likely", does_not_raise()),
        ("sampled", does_not_raise()),
        ("mean", raises(ValueError, match=r"one of 'most_likely', 'sampled'\. Found .*'mean'")),
    ],
)
def test_evaluation_is_one_of_two(
    evaluation: str, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        GumbelMatrix(1, 1, evaluation=evaluation)


def test_a_task_may_be_a_tensor() -> None:
    matrix = GumbelMatrix(3, 4, p_init=torch.rand(3, 4) * 0.8 + 0.1)
    noise = torch.rand(4)
    for task in range(3):
        index = torch.tensor(task)
        assert_close(matrix.weights(index, noise=noise), matrix.weights(task, noise=noise))
        assert_close(matrix.probabilities(index), matrix.probabilities(task))


def test_it_prints_its_sizes_and_temperature() -> None:
    assert repr(GumbelMatrix(2, 3)) == (
        "GumbelMatrix(n_tasks=2, n_components=3, temperature=Annealing(start=50.0, floor=0.5))"
    )


@mark.parametrize("n", [4.0, "4", True])
def test_counts_are_whole_numbers(n: Any) -> None:
    with raises(
        TypeError, match=rf"`n_tasks` should be a whole number\. Found `n_tasks = {n!r}`\."
    ):
        GumbelMatrix(n, 3)
    with raises(TypeError, match=rf"`n_components` should be a whole number\. Found .* = {n!r}`\."):
        GumbelMatrix(2, n)


def test_a_temperature_is_an_annealing() -> None:
    with raises(TypeError, match=r"`temperature` should be an Annealing.*`temperature = 5\.0`\."):
        GumbelMatrix(2, 3, temperature=5.0)  # type: ignore[arg-type]
