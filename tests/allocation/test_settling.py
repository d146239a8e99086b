"""Gates that settle: learnt as the paper's at first, and then what evaluation uses."""

from math import log
from typing import Any

import torch
from pytest import approx, mark, raises
from torch.testing import assert_close

from allotment.allocation import GumbelMatrix, SettlingMatrix, recommended
from allotment.modules import MultiTaskNetwork
from tests.allocation.ways import assert_runs_together_end_as_one_alone, both_schedules
from tests.training.toy import SETTINGS, a_network, a_run, assert_resumed_to_the_bit, outcomes_of


def after(n_batches: int, **options: object) -> SettlingMatrix:
    """Returns the gates of two tasks after so many of 30 batches."""
    found = SettlingMatrix(2, 3, **options)  # type: ignore[arg-type]
    with torch.no_grad():
        found.logits.copy_(torch.tensor([[1.0, -1.0, 0.2], [-0.1, 2.0, -3.0]])[..., None] * SIDES)
    found.expect(30)
    for _ in range(n_batches):
        found.advance()
    return found


def settling_network() -> MultiTaskNetwork:
    return a_network(SettlingMatrix(2, 3))


def learn(gates: SettlingMatrix) -> bool:
    """Tells whether anything that training goes down moves the logits."""
    with torch.no_grad():
        uneven = torch.rand(3)
    charged = gates.auxiliary_loss(0, torch.zeros(()), torch.zeros(3))
    told = (gates.weights(0) * uneven).sum() + gates.probabilities(0).sum()
    (slope,) = torch.autograd.grad(told + (0.0 if charged is None else charged), gates.logits)
    return bool(slope.abs().sum() > 0)


SIDES = torch.tensor([0.5, -0.5])  # the advantage of a gate, as two logits


def test_until_they_settle_gates_are_those_of_gumbel_matrix() -> None:
    settling, plain = after(19), GumbelMatrix(2, 3)
    plain.load_state_dict({"logits": settling.logits, "n_batches": settling.n_batches})
    noise = torch.rand(3)
    for one in (settling, plain):
        one.weights(1, noise=noise).square().sum().backward()
    assert_close(settling.weights(1, noise=noise), plain.weights(1, noise=noise))
    assert settling.logits.grad is not None and plain.logits.grad is not None
    assert_close(settling.logits.grad, plain.logits.grad, rtol=0, atol=0)


def test_settled_gates_are_what_evaluation_uses_whatever_is_drawn() -> None:
    settled = after(20)
    for noise in (None, torch.full((3,), 1e-6), torch.full((3,), 1 - 1e-6)):
        assert_close(settled.weights(0, noise=noise), torch.tensor([0.5, 0.0, 0.5]))
        assert_close(settled.weights(1, noise=noise), torch.tensor([0.0, 1.0, 0.0]))
    assert_close(settled.eval().weights(0), torch.tensor([0.5, 0.0, 0.5]))


def test_gates_settle_where_the_last_batch_before_left_them() -> None:
    gates = after(19)
    with torch.no_grad():
        gates.logits.neg_()
    gates.advance()
    assert_close(gates.matrix(), torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]))


def test_settled_gates_stay_whatever_becomes_of_the_logits() -> None:
    settled = after(20, pull=0.5)
    before, p = settled.matrix(), settled.probabilities()
    with torch.no_grad():
        settled.logits.neg_()
    settled.advance()
    assert_close(settled.matrix(), before)
    assert_close(settled.probabilities(), p)
    assert not learn(settled)


def test_another_training_goes_on_from_where_they_settled() -> None:
    settled = after(20)
    before = settled.matrix()
    with torch.no_grad():
        settled.logits.neg_()
    settled.expect(30)
    assert_close(settled.matrix(), before)
    assert learn(settled)
    for _ in range(20):
        settled.advance()
    assert not learn(settled)


def test_gates_that_settle_at_once_are_those_there_are() -> None:
    gates = after(0, settle=1.0)
    assert_close(gates.matrix(), torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    assert_close(gates.weights(0), torch.tensor([0.5, 0.0, 0.5]))
    assert not learn(gates)


def test_in_a_loop_that_tells_of_no_end_gates_go_on_to_be_drawn() -> None:
    gates = SettlingMatrix(1, 3)
    for _ in range(1_000):
        gates.advance()
    assert learn(gates)


def test_the_pull_is_the_divergence_from_the_start() -> None:
    gates = SettlingMatrix(1, 2, p_init=0.9, pull=0.5)
    with torch.no_grad():
        gates.logits[0, 0] = torch.tensor([0.0, 0.0])  # one gate moved to 0.5
    expected = 0.5 * (0.5 * log(0.5 / 0.9) + 0.5 * log(0.5 / 0.1))
    found = gates.auxiliary_loss(0, torch.zeros(()), torch.zeros(2))
    assert found is not None and found.item() == approx(expected, rel=1e-5)
    assert SettlingMatrix(1, 2).auxiliary_loss(0, torch.zeros(()), torch.zeros(2)) is None


@mark.usefixtures("double")
@both_schedules
def test_many_runs_end_as_one_alone(schedule: str) -> None:
    def make() -> SettlingMatrix:
        return SettlingMatrix(2, 3, settle=0.5, pull=0.01)

    state = assert_runs_together_end_as_one_alone(make, schedule=schedule)
    settled = next(value for name, value in state.items() if name.endswith("settled"))
    logits = next(value for name, value in state.items() if name.endswith("logits"))
    assert settled.shape == logits.shape


def test_training_tells_of_its_end_and_leaves_the_network_as_it_was() -> None:
    network = a_network(SettlingMatrix(2, 3))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    run = a_run(0, SETTINGS.changed(rounds=30), build=lambda: network)
    (outcome,) = outcomes_of([run])
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    ends = [value for name, value in outcome.weights.items() if name.endswith("settles_at")]
    assert [int(end) for end in ends] == [40] * len(ends)  # two thirds of 30 rounds of two tasks


def test_a_training_goes_on_where_it_stopped() -> None:
    assert_resumed_to_the_bit(
        lambda: [a_run(0, SETTINGS.changed(rounds=30), build=settling_network)]
    )


def test_runs_that_settle_depend_on_their_number_of_rounds() -> None:
    assert a_run(0, SETTINGS, build=settling_network).depends_on_rounds
    assert not a_run(0, SETTINGS, build=lambda: a_network(GumbelMatrix(2, 3))).depends_on_rounds


@mark.parametrize(
    ("options", "message"),
    [
        ({"settle": 1.5}, "`settle` should be"),
        ({"settle": -0.1}, "`settle` should be"),
        ({"pull": -1.0}, "`pull` should be at least 0"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with raises(ValueError, match=message):
        SettlingMatrix(2, 3, **options)


def test_settled_gates_gain_and_lose_tasks_and_components() -> None:
    settled = after(20)
    settled.add_task(like=1)
    settled.add_task()
    assert_close(settled.matrix()[2:], torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
    settled.keep_tasks([2, 0])
    settled.keep_components([1, 2])
    assert_close(settled.matrix(), torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    for mode in (True, False):
        assert_close(settled.train(mode).weights(0), torch.tensor([1.0, 0.0]))


def test_the_recommended_allocation_is_this_one_with_its_defaults() -> None:
    found, own = recommended(2, 3), SettlingMatrix(2, 3)
    assert type(found) is SettlingMatrix
    assert (found.settle, found.pull) == (own.settle, own.pull)
    assert_close(found.probabilities(), own.probabilities())
