"""Gates learnt by REINFORCE: the mean of many gradients is the exact one."""

import torch
from pytest import approx, mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import ScoreFunctionMatrix
from allotment.training import Run
from tests.allocation.ways import (
    all_gates,
    assert_runs_together_end_as_one_alone,
    assert_tasks_are_batched_over,
    assert_unbiased,
    both_schedules,
    gradients_of_draws,
    likelihoods,
)
from tests.training.toy import (
    SETTINGS,
    a_network,
    a_run,
    assert_resumed_to_the_bit,
    fitted,
)

P = [[0.2, 0.5, 0.9, 0.4], [0.7, 0.3, 0.6, 0.1]]
N_DRAWS = 20_000


GENERATOR = torch.Generator().manual_seed(1)
OUTPUTS = torch.randn(4, 5, generator=GENERATOR, dtype=torch.float64)  # of four components
TARGETS = torch.randn(5, generator=GENERATOR, dtype=torch.float64)


def a_loss(weights: Tensor) -> Tensor:
    """Returns the loss of a small network, on five examples."""
    return (torch.tanh(weights @ OUTPUTS) - TARGETS).square().mean() + 1.0


def expected_loss(logits: Tensor) -> Tensor:
    """Returns the mean loss over all sixteen ways to open four gates."""
    gates = all_gates(4)
    losses = torch.stack([a_loss(own / own.sum().clamp_min(1.0)) for own in gates])
    return (likelihoods(logits, gates) * losses).sum()


def a_matrix(baseline: float) -> ScoreFunctionMatrix:
    matrix = ScoreFunctionMatrix(2, 4, p_init=P)
    matrix.observe(0, torch.tensor(baseline))
    return matrix


@mark.usefixtures("double")
@mark.parametrize("baseline", [0.0, 2.0, -3.0])
def test_the_mean_gradient_is_that_of_the_expected_loss(baseline: float) -> None:
    draws = gradients_of_draws(a_matrix(baseline), a_loss, N_DRAWS)["logits"]
    logits = torch.logit(torch.tensor(P[0])).requires_grad_()
    (exact,) = torch.autograd.grad(expected_loss(logits), logits)
    assert exact.abs().max() > 0.05  # something to be found
    assert_unbiased(draws[:, 0], exact)
    assert (draws[:, 1] == 0).all()


@mark.usefixtures("double")
def test_a_baseline_near_the_mean_loss_makes_gradients_vary_less() -> None:
    mean_loss = expected_loss(torch.logit(torch.tensor(P[0]))).item()
    spreads = []
    for baseline in (mean_loss, 0.0):
        draws = gradients_of_draws(a_matrix(baseline), a_loss, 2_000)["logits"]
        spreads.append(draws[:, 0].var(dim=0).sum())
    assert spreads[0] < 0.5 * spreads[1]


def test_what_is_added_is_the_advantage_times_the_log_likelihood() -> None:
    matrix = a_matrix(2.0)
    weights = torch.tensor([0.5, 0.0, 0.5, 0.0])
    found = matrix.auxiliary_loss(0, torch.tensor(5.0), weights)
    by_hand = 3.0 * (torch.tensor([0.2, 0.5, 0.9, 0.6]).log().sum())
    assert_close(found.detach(), by_hand)
    found.backward()
    assert matrix.logits.grad is not None
    # d log p / d logit = gate - p
    assert_close(
        matrix.logits.grad[0], 3.0 * (torch.tensor([1.0, 0.0, 1.0, 0.0]) - torch.tensor(P[0]))
    )


def test_all_gates_shut_are_a_draw_like_any_other() -> None:
    matrix = a_matrix(2.0)
    weights = matrix.weights(0, noise=torch.full((4,), 0.01))
    assert (weights == 0).all()
    found = matrix.auxiliary_loss(0, torch.tensor(5.0), weights).item()
    by_hand = 3.0 * (1 - torch.tensor(P[0])).log().sum()
    assert found == approx(by_hand.item())


def test_the_first_batch_of_a_task_teaches_nothing() -> None:
    matrix = ScoreFunctionMatrix(2, 4)
    assert matrix.auxiliary_loss(1, torch.tensor(5.0), matrix.weights(1)).item() == 0.0


def test_no_gradient_goes_through_the_gates() -> None:
    matrix = a_matrix(2.0)
    assert not matrix.weights(0).requires_grad
    loss = torch.tensor(5.0, requires_grad=True)
    matrix.auxiliary_loss(0, loss, matrix.weights(0)).backward()
    assert loss.grad is None


@mark.parametrize("p_open", [0.03, 0.5, 0.97])
def test_a_gate_is_open_as_often_as_its_probability_says(p_open: float) -> None:
    n = 100_000
    weights = ScoreFunctionMatrix(1, n, p_init=p_open).weights(0)
    standard_error = (p_open * (1 - p_open) / n) ** 0.5
    assert (weights > 0).float().mean().item() == approx(p_open, abs=4 * standard_error)
    assert weights.sum().item() == approx(1.0, abs=1e-4)


def test_evaluation_opens_what_is_at_least_half_likely() -> None:
    matrix = ScoreFunctionMatrix(2, 4, p_init=P).eval()
    assert_close(matrix.weights(0), torch.tensor([0.0, 0.5, 0.5, 0.0]))
    assert_close(matrix.matrix(), (torch.tensor(P) >= 0.5).float())
    assert (matrix.is_binary, matrix.same_in_evaluation, matrix.n_noise) == (True, True, 4)


def test_tasks_are_batched_over() -> None:
    assert_tasks_are_batched_over(ScoreFunctionMatrix(2, 4, p_init=P))


@mark.usefixtures("double")
@both_schedules
def test_runs_together_end_as_one_alone(schedule: str) -> None:
    def make() -> ScoreFunctionMatrix:
        return ScoreFunctionMatrix(2, 3)

    state = assert_runs_together_end_as_one_alone(make, schedule=schedule)
    assert (state["layers.0.allocation.logits"].abs() > 0.01).any()
    assert state["layers.0.allocation.baseline.n_seen"].tolist() == [6, 6]
    assert (state["layers.0.allocation.baseline.mean"] > 0).all()


def test_going_on_from_a_state_ends_the_same_to_the_bit() -> None:
    def runs() -> list[Run]:
        settings = SETTINGS.changed(rounds=20)
        return [a_run(0, settings, build=lambda: a_network(ScoreFunctionMatrix(2, 3)))]

    assert_resumed_to_the_bit(runs)


def test_fitting_observes_every_batch() -> None:
    network = a_network(ScoreFunctionMatrix(2, 3))
    fitted(network, rounds=5)
    assert network.state_dict()["layers.0.allocation.baseline.n_seen"].tolist() == [5, 5]


def test_bad_arguments_are_told() -> None:
    with raises(
        ValueError, match=r"^`p_init` should be strictly between 0 and 1\. Found .* = 1\.0"
    ):
        ScoreFunctionMatrix(1, 1, p_init=1.0)
    with raises(
        ValueError, match=r"^`baseline_decay` should be strictly between .* Found .* = 1\.0"
    ):
        ScoreFunctionMatrix(1, 1, baseline_decay=1.0)


def test_it_prints_its_options() -> None:
    assert repr(ScoreFunctionMatrix(2, 3)).startswith(
        "ScoreFunctionMatrix(\n  n_tasks=2, n_components=3, baseline_decay=0.9\n"
    )
