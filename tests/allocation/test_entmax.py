"""Shares of each task of which some are exactly zero."""

import torch
from pytest import mark
from torch import Tensor, nn
from torch.func import vmap
from torch.testing import assert_close

from allotment import extract
from allotment.allocation import EntmaxMatrix
from allotment.allocation._entmax import entmax
from allotment.modules import MultiTaskNetwork
from tests.allocation.ways import (
    assert_every_parameter_moves,
    assert_runs_train_together,
    both_schedules,
)
from tests.training.toy import N_INPUTS, a_network, fitted


def entmax_network() -> MultiTaskNetwork:
    return a_network(EntmaxMatrix(2, 3))


def matrix_of(network: MultiTaskNetwork) -> Tensor:
    return network.modular_layers[0].allocation.matrix()


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def by_bisection(scores: Tensor) -> Tensor:
    """Returns the shares, with the threshold found by halving an interval that holds it."""
    halves = scores / 2
    low, high = halves.amax(dim=-1, keepdim=True) - 1, halves.amax(dim=-1, keepdim=True)
    for _ in range(60):
        middle = (low + high) / 2
        is_too_low = (halves - middle).clamp_min(0).square().sum(dim=-1, keepdim=True) > 1
        low, high = torch.where(is_too_low, middle, low), torch.where(is_too_low, high, middle)
    return (halves - low).clamp_min(0).square()


@mark.usefixtures("double")
@mark.parametrize("scale", [0.01, 1.0, 5.0, 1000.0])
def test_shares_are_those_of_the_published_equation(scale: float) -> None:
    scores = scale * torch.randn(50, 7)
    found = entmax(scores)
    assert_close(found, by_bisection(scores), rtol=0, atol=1e-9)
    assert_close(found.sum(dim=-1), torch.ones(50), rtol=0, atol=1e-9)
    assert (found >= 0).all()


@mark.usefixtures("double")
def test_shares_are_the_best_of_all_by_score_and_entropy() -> None:
    """They are published as the maximum of ``p s + (1 - sum(p ** 1.5)) / 0.75``."""
    scores = torch.randn(20, 5)

    def value(shares: Tensor) -> Tensor:
        return (shares * scores).sum(dim=-1) + (1 - shares.pow(1.5).sum(dim=-1)) / 0.75

    best = value(entmax(scores))
    for _ in range(200):
        other = torch.distributions.Dirichlet(torch.full((5,), 0.5)).sample((20,))
        for step in (1.0, 0.01):
            moved = (1 - step) * entmax(scores) + step * other
            assert (value(moved) <= best + 1e-12).all()


@mark.usefixtures("double")
def test_the_gradient_is_the_published_one() -> None:
    scores = torch.tensor([1.0, 0.4, 0.3, -3.0], requires_grad=True)
    upstream = torch.tensor([1.0, -2.0, 0.5, 3.0])
    shares = entmax(scores)
    (shares * upstream).sum().backward()
    roots = shares.detach().sqrt()
    assert roots[3] == 0 < roots[2]
    expected = roots * (upstream - (roots * upstream).sum() / roots.sum())
    assert scores.grad is not None
    assert_close(scores.grad, expected)
    assert torch.autograd.gradcheck(entmax, torch.randn(3, 6, requires_grad=True))


def test_shares_start_equal_and_have_a_gradient() -> None:
    matrix = EntmaxMatrix(3, 5)
    assert_close(matrix.matrix(), torch.full((3, 5), 0.2))
    matrix.weights(1)[0].backward()
    assert matrix.logits.grad is not None
    assert matrix.logits.grad[1, 0] > 0 > matrix.logits.grad[1, 1]
    assert (matrix.logits.grad[[0, 2]] == 0).all()


def test_float32_is_as_good_as_its_rounding() -> None:
    for scale in (0.0, 1.0, 100.0, 1e6, 1e20):
        for n in (1, 2, 7, 200):
            scores = scale * torch.randn(20, n)
            assert_close(entmax(scores).double(), entmax(scores.double()), rtol=0, atol=1e-5)
    assert_close(entmax(torch.tensor([9.0, 9.0, 0.0])), torch.tensor([0.5, 0.5, 0.0]))
    assert entmax(torch.tensor([2.0, 0.0, 0.0])).tolist() == [1.0, 0.0, 0.0]


@mark.usefixtures("double")
def test_a_share_of_zero_comes_back_where_two_others_move() -> None:
    logits = torch.tensor([1.0, -0.5, -1.0], requires_grad=True)
    for _ in range(200):
        shares = entmax(logits)
        if shares[2] > 0:
            break
        (gradient,) = torch.autograd.grad(shares[0], logits)
        assert gradient[2] == 0
        logits = (logits - 0.05 * gradient).detach().requires_grad_()
    assert shares[2] > 0


def test_a_task_that_is_left_with_one_component_stays_with_it() -> None:
    logits = torch.tensor([3.0, 0.0, 0.0], requires_grad=True)
    for share in entmax(logits):
        (gradient,) = torch.autograd.grad(share, logits, retain_graph=True)
        assert (gradient == 0).all()


def test_scores_that_are_not_finite_spoil_their_own_row_alone() -> None:
    scores = torch.tensor([[float("nan"), 0.0], [1.0, 0.0]])
    for found in (entmax(scores), vmap(entmax)(scores)):
        assert found[0].isnan().all()
        assert_close(found[1], entmax(scores[1]))


def test_tasks_of_several_runs_find_their_rows() -> None:
    matrix, tasks = EntmaxMatrix(3, 4), torch.tensor([2, 0, 2])
    with torch.no_grad():
        matrix.logits.copy_(torch.randn(3, 4))
    assert_close(vmap(matrix.weights)(tasks), matrix.probabilities()[tasks])


@mark.usefixtures("double")
@both_schedules
def test_many_runs_train_as_one_program(schedule: str) -> None:
    assert_runs_train_together(entmax_network, schedule)


def test_training_moves_the_shares() -> None:
    assert_every_parameter_moves(entmax_network)


def test_what_has_no_share_is_not_extracted() -> None:
    network = entmax_network()
    fitted(network)
    allocation = network.modular_layers[0].allocation
    assert isinstance(allocation, EntmaxMatrix)
    with torch.no_grad():
        allocation.logits[1] = torch.tensor([0.0, 0.2, -5.0])
    x = torch.randn(7, N_INPUTS)
    alone = extract(network, 1)
    assert_close(alone(x), network(x, 1), rtol=0, atol=1e-6)
    shares = matrix_of(network)[1]
    assert (shares > 0).tolist() == [True, True, False]
    n_parts = sum(p.numel() for p in network.modular_layers[0].components[2].parameters())
    others = EntmaxMatrix(2, 3)  # with these all are kept
    assert n_parameters(extract(a_network(others), 1)) - n_parameters(alone) == n_parts


@mark.usefixtures("double")
def test_components_without_a_share_are_dropped_and_nothing_changes() -> None:
    matrix = EntmaxMatrix(2, 4)
    with torch.no_grad():
        matrix.logits.copy_(torch.tensor([[0.0, 0.3, -5.0, -5.0], [0.2, -5.0, -5.0, 0.1]]))
    before = matrix.matrix()
    assert (before[:, 2] == 0).all()
    matrix.keep_components([0, 1, 3])
    assert_close(matrix.matrix(), before[:, [0, 1, 3]], rtol=0, atol=1e-12)
