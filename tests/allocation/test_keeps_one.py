"""A layer keeps its most likely gate, unless it is told not to."""

import io
from collections.abc import Callable
from copy import deepcopy

import torch
from pytest import mark
from torch import Tensor, nn
from torch.func import vmap
from torch.testing import assert_close

import allotment as al
from allotment.allocation import Allocation, MetadataMatrix, StraightThroughMatrix
from allotment.modules._low_rank import AdaptedPart, update_of
from tests.allocation.ways import all_gates, assert_runs_together_end_as_one_alone, likelihoods

P = [[0.1, 0.3, 0.2], [0.6, 0.2, 0.4]]  # all are shut in the first row
SHUT = torch.full((3,), 0.01)  # noise that opens no gate

WAYS: dict[str, Callable[[bool], Allocation]] = {
    "gumbel": lambda keeps: al.GumbelMatrix(2, 3, p_init=P, keeps_one=keeps),
    "straight_through": lambda keeps: StraightThroughMatrix(2, 3, p_init=P, keeps_one=keeps),
    "metadata": lambda keeps: from_features(keeps),
}
every_way = mark.parametrize("way", WAYS)


def from_features(keeps: bool) -> MetadataMatrix:
    made = MetadataMatrix(2, 3, features=[[1.0, 0.0], [0.0, 1.0]], bias=False, keeps_one=keeps)
    with torch.no_grad():
        made.weight[..., 0] = torch.logit(torch.tensor(P))
    return made


@every_way
def test_the_most_likely_gate_of_a_row_that_is_shut_opens_in_evaluation(way: str) -> None:
    kept, plain = WAYS[way](True).eval(), WAYS[way](False).eval()
    assert kept.matrix().tolist() == [[0, 1, 0], [1, 0, 0]]
    assert plain.matrix().tolist() == [[0, 0, 0], [1, 0, 0]]
    for task in range(2):
        assert_close(kept.weights(task), kept.matrix()[task])
        assert_close(plain.weights(task), plain.matrix()[task])
    assert torch.equal(kept.probabilities(), plain.probabilities())


@every_way
def test_a_draw_in_which_all_are_shut_opens_the_most_likely_and_no_other_draw_changes(
    way: str,
) -> None:
    kept, plain = WAYS[way](True), WAYS[way](False)
    assert kept.weights(0, noise=SHUT).tolist() == [0, 1, 0]
    assert kept.weights(1, noise=SHUT).tolist() == [1, 0, 0]
    assert plain.weights(0, noise=SHUT).tolist() == [0, 0, 0]
    for noise in torch.rand(40, 3):
        drawn = plain.weights(0, noise=noise)
        if drawn.any():
            assert torch.equal(kept.weights(0, noise=noise), drawn)


@every_way
def test_a_kept_gate_is_batched_over(way: str) -> None:
    allocation, noise = WAYS[way](True), torch.rand(30, 3) * 0.95

    def weights(noise: Tensor) -> Tensor:
        return allocation.weights(torch.tensor(0), noise=noise)

    one_by_one = torch.stack([allocation.weights(0, noise=each) for each in noise])
    assert_close(vmap(weights)(noise), one_by_one, rtol=0, atol=0)
    assert (one_by_one.sum(dim=1) > 0).all()


def test_gates_that_are_equally_likely_open_together() -> None:
    allocation = al.GumbelMatrix(1, 3, p_init=0.2)
    assert allocation.matrix().tolist() == [[1, 1, 1]]
    assert_close(allocation.weights(0, noise=SHUT).detach(), torch.full((3,), 1 / 3))


def test_the_gradient_of_a_kept_gate_is_that_of_taking_its_place() -> None:
    upstream = torch.tensor([1.0, -2.0, 0.7])
    matrix = StraightThroughMatrix(2, 3, p_init=P)
    (matrix.weights(0, noise=SHUT) * upstream).sum().backward()
    assert matrix.logits.grad is not None
    p = torch.tensor(P[0])
    # Open, another would be alone: its output in place of the kept one's, which has none itself.
    by_gate = upstream - upstream[1]
    assert_close(matrix.logits.grad[0], by_gate * p * (1 - p))


def test_weights_are_those_of_the_draws_and_the_kept_gate_by_their_likelihoods() -> None:
    allocation, n = StraightThroughMatrix(2, 3, p_init=P), 40_000
    draws = vmap(lambda noise: allocation.weights(0, noise=noise))(torch.rand(n, 3)).detach()
    gates = all_gates(3)
    chances = likelihoods(torch.logit(torch.tensor(P[0])), gates)
    outcome = gates.clone()
    outcome[0] = torch.tensor([0.0, 1.0, 0.0])  # of no gate
    exact = (chances.unsqueeze(1) * outcome / outcome.sum(dim=1, keepdim=True)).sum(dim=0)
    standard_error = draws.std(dim=0) / n**0.5
    assert ((draws.mean(dim=0) - exact).abs() < 4 * standard_error).all()


@mark.usefixtures("double")
@mark.parametrize("keeps", [True, False])
def test_runs_with_kept_gates_train_as_one_program(keeps: bool) -> None:
    def make() -> Allocation:
        return al.GumbelMatrix(2, 3, p_init=0.4, keeps_one=keeps)

    assert_runs_together_end_as_one_alone(make)


def network_of(keeps: bool = True) -> al.MultiTaskNetwork:
    layer = al.ModularLayer([nn.Linear(4, 2) for _ in range(3)], WAYS["gumbel"](keeps))
    return al.MultiTaskNetwork(None, [layer], task_names=["a", "b"])


def test_what_is_extracted_has_the_kept_gate() -> None:
    network, x = network_of().eval(), torch.randn(5, 4)
    assert torch.equal(al.extract(network, "a")(x), network(x, "a"))
    assert torch.equal(network(x, "a"), network.modular_layers[0].components[1](x))


def test_a_network_that_was_saved_without_kept_gates_comes_back_so() -> None:
    old, file = network_of(keeps=False), io.BytesIO()
    state = old.state_dict()
    metadata = state._metadata  # type: ignore[attr-defined]
    metadata["layers.0.allocation"]["version"] = 1  # as before there was a choice
    torch.save(state, file)
    file.seek(0)
    new = network_of()
    new.load_state_dict(torch.load(file, weights_only=True))
    x = torch.randn(5, 4)
    assert not new.modular_layers[0].allocation.keeps_one
    assert torch.equal(new.eval()(x, "a"), old.eval()(x, "a"))


def test_a_network_that_is_saved_now_comes_back_as_it_was_built() -> None:
    for keeps in (True, False):
        new = network_of(keeps)
        new.load_state_dict(network_of(not keeps).state_dict())
        assert new.modular_layers[0].allocation.keeps_one == keeps
        new.load_state_dict(dict(network_of().state_dict()))  # as safetensors gives it
        assert new.modular_layers[0].allocation.keeps_one == keeps


def test_states_of_version_0_1_come_back_without_kept_gates() -> None:
    state = dict(network_of().state_dict())
    state["layers.0.allocation.n_draws"] = state.pop("layers.0.allocation.n_batches")
    new = network_of()
    new.load_state_dict(state)
    assert not new.modular_layers[0].allocation.keeps_one


def test_a_copy_keeps_what_it_keeps() -> None:
    for keeps in (True, False):
        assert deepcopy(network_of(keeps)).modular_layers[0].allocation.keeps_one == keeps


def test_an_update_of_a_part_may_be_left_out() -> None:
    base = nn.Linear(4, 2)
    layer = al.ModularLayer([update_of(base, 2) for _ in range(3)], WAYS["gumbel"](True))
    AdaptedPart(base, layer)
    assert layer.allocation.matrix()[0].tolist() == [0, 0, 0]
