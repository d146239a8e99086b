"""Gates with stages: each stage is the one change that it is said to be."""

from math import inf

import torch
from pytest import mark
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import Allocation, GumbelMatrix, SettlingMatrix
from allotment.paper._changes import StagedMatrix, some_components
from tests.training.toy import SETTINGS, a_network, a_run, assert_one_program, weights_of

LOGITS = torch.tensor([[1.0, -1.0, 0.2], [-0.1, 2.0, -3.0]])[..., None] * torch.tensor([0.5, -0.5])
ROUNDS = SETTINGS.changed(rounds=30, allocation_learning_rate=0.05)  # of two tasks: 60 batches


def after(n_batches: int, **options: float) -> StagedMatrix:
    """Returns the gates of two tasks after so many of 30 batches."""
    found = StagedMatrix(2, 3, **options)
    with torch.no_grad():
        found.logits.copy_(LOGITS)
    found.expect(30)
    for _ in range(n_batches):
        found.advance()
    return found


def learns(gates: StagedMatrix) -> bool:
    """Tells whether the loss of a draw, of which there is one with all gates, moves the logits."""
    told = gates.weights(0, noise=torch.full((3,), 0.9)) @ torch.tensor([0.3, 1.0, 0.1])
    if not told.requires_grad:
        return False
    (slope,) = torch.autograd.grad(told, gates.logits)
    return bool(slope.abs().sum() > 0)


def is_drawn(gates: StagedMatrix) -> bool:
    few, many = (gates.weights(0, noise=torch.full((3,), p)) for p in (1e-6, 1 - 1e-6))
    return not torch.equal(few, many)


@mark.parametrize(
    ("options", "n_batches", "expected"),
    [
        ({}, 0, (True, True)),
        ({}, 30, (True, True)),
        ({"learnt_from": 1 / 3}, 9, (False, True)),
        ({"learnt_from": 1 / 3}, 10, (True, True)),
        ({"drawn_until": 2 / 3}, 19, (True, True)),
        ({"drawn_until": 2 / 3}, 20, (True, False)),
        ({"learnt_until": 2 / 3, "drawn_until": 2 / 3}, 19, (True, True)),
        ({"learnt_until": 2 / 3, "drawn_until": 2 / 3}, 20, (False, False)),
        ({"open_from": 2 / 3}, 19, (True, True)),
        ({"open_from": 2 / 3}, 20, (False, False)),
        ({"own_until": 1 / 3}, 9, (False, False)),
        ({"own_until": 1 / 3}, 10, (True, True)),
    ],
)
def test_when_gates_learn_and_when_they_are_drawn(
    options: dict[str, float], n_batches: int, expected: tuple[bool, bool]
) -> None:
    gates = after(n_batches, **options)
    assert (learns(gates), is_drawn(gates)) == expected


def test_gates_that_are_opened_are_a_shared_bottom_in_training_and_evaluation() -> None:
    gates = after(20, open_from=2 / 3)
    for mode in (True, False):
        assert_close(gates.train(mode).weights(1, noise=torch.rand(3)), torch.full((3,), 1 / 3))
    assert gates.matrix().all()
    assert not after(19, open_from=2 / 3).matrix().all()


def test_tasks_begin_with_components_of_their_own_and_go_on_with_the_gates_they_have() -> None:
    for mode in (True, False):
        weights = after(9, own_until=1 / 3).train(mode).weights(1, noise=torch.rand(3))
        assert_close(weights, torch.tensor([0.0, 1.0, 0.0]))
    assert after(9, own_until=1 / 3).matrix().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert_close(after(10, own_until=1 / 3).matrix(), after(10).matrix())


def test_gates_that_have_learnt_stay_whatever_becomes_of_the_logits() -> None:
    gates = after(20, learnt_until=2 / 3, drawn_until=2 / 3)
    before = gates.matrix()
    with torch.no_grad():
        gates.logits.neg_()
    assert_close(gates.matrix(), before)


def trained(allocation: Allocation) -> dict[str, Tensor]:
    return weights_of(a_run(0, ROUNDS, build=lambda: a_network(allocation)))


@mark.usefixtures("double")
@mark.parametrize(
    ("staged", "known"),
    [
        (StagedMatrix(2, 3), GumbelMatrix(2, 3)),
        (
            StagedMatrix(2, 3, learnt_until=2 / 3, drawn_until=2 / 3, p_init=0.8),
            SettlingMatrix(2, 3, p_init=0.8),
        ),
    ],
    ids=["plain", "settling"],
)
def test_a_training_with_these_stages_ends_as_that_of_the_allocation_they_stand_for(
    staged: Allocation, known: Allocation
) -> None:
    found, expected = trained(staged.double()), trained(known.double())
    shared = [name for name in expected if name in found]
    assert any(name.endswith("logits") for name in shared)
    for name in shared:
        assert_close(found[name], expected[name], rtol=0, atol=1e-12, msg=f"{name}: {{}}".format)


def test_runs_with_different_stages_are_one_program() -> None:
    every: tuple[dict[str, float], ...] = (
        {},
        {"learnt_from": 0.5},
        {"drawn_until": 0.5},
        {"own_until": 0.5},
        {"open_from": 0.5},
    )
    runs = [a_run(0, ROUNDS, build=lambda o=o: a_network(StagedMatrix(2, 3, **o))) for o in every]  # type: ignore[misc]
    outcomes = assert_one_program(runs)
    matrices = [outcome.matrix for outcome in outcomes]
    assert (matrices[-1] == 1).all()
    assert not (matrices[0] == 1).all()


def test_a_narrow_shared_bottom_averages_the_first_components() -> None:
    assert_close(some_components(2, 8, share=0.625).weights(1)[:6].tolist(), [0.2] * 5 + [0.0])
    assert StagedMatrix(1, 2).shares.tolist() == [0.0, inf, inf, inf, 0.0]
