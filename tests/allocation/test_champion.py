"""A champion and a challenger for each task: one gate apart, in one layer."""

from typing import Any

import torch
from pytest import mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.allocation import ChampionChallenger


def challengers(allocation: ChampionChallenger) -> tuple[Tensor, Tensor]:
    """Returns each task's champion and challenger, ``[T, C]`` each."""
    first, second = allocation.members.unbind(1)
    assert torch.equal(allocation.matrix() > 0, first > 0)
    return first, second


def test_a_challenger_differs_by_one_gate_in_one_layer() -> None:
    n_tasks, n_layers = 300, 3
    layers = [ChampionChallenger(n_tasks, 6, depth=d, n_layers=n_layers) for d in range(n_layers)]
    n_changed = torch.stack([(a != b).sum(1) for a, b in map(challengers, layers)])  # [L, T]
    # Two, where the last open gate moves to the next component.
    assert set(n_changed.sum(dim=0).tolist()) <= {1, 2}
    assert ((n_changed > 0).sum(dim=0) == 1).all()
    shares = (n_changed > 0).float().mean(dim=1)
    standard_error = (1 / 3 * 2 / 3 / n_tasks) ** 0.5
    assert_close(shares, torch.full((3,), 1 / 3), rtol=0, atol=4 * standard_error)


def test_every_gate_changes_as_often() -> None:
    n_tasks, n_components = 6_000, 5
    allocation = ChampionChallenger(n_tasks, n_components)
    members = torch.ones(n_tasks, n_components, dtype=torch.int64)
    shares = (allocation.mutated(members) == 0).float().mean(dim=0)
    standard_error = (0.2 * 0.8 / n_tasks) ** 0.5
    assert_close(shares, torch.full((n_components,), 0.2), rtol=0, atol=4 * standard_error)


def test_the_last_open_gate_moves_on() -> None:
    allocation = ChampionChallenger(500, 4)
    members = torch.tensor([[0, 0, 0, 1]]).expand(500, 4)
    found = {tuple(row) for row in allocation.mutated(members).tolist()}
    assert found == {(1, 0, 0, 0), (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1)}


def test_a_champion_begins_with_some_gates_open() -> None:
    allocation = ChampionChallenger(3_000, 4, p_init=0.3)
    gates = allocation.matrix()
    assert (gates.sum(dim=1) >= 1).all()
    # Open by its own draw, or as the smallest of four of which none is.
    expected = 0.3 + 0.7**4 / 4
    standard_error = (expected * (1 - expected) / gates.numel()) ** 0.5
    assert_close(float(gates.mean()), expected, rtol=0, atol=4 * standard_error)


def test_open_components_are_averaged_or_summed() -> None:
    for reduce, expected in (("mean", [0.5, 0.5, 0.0]), ("sum", [1.0, 1.0, 0.0])):
        allocation = ChampionChallenger(1, 3, reduce=reduce).eval()
        allocation.members = torch.tensor([[[1, 1, 0], [1, 1, 0]]])
        assert allocation.weights(0).tolist() == expected


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"p_init": 0.0}, ValueError, r"^`p_init` should be strictly between 0 and 1\. Found "),
    ({"depth": -1}, ValueError, r"^`depth` should be at least 0\. Found `depth = -1`\.$"),
    ({"depth": 2, "n_layers": 2}, ValueError, r"^`depth` should be below `n_layers`\. Found "),
]


@mark.parametrize(("options", "error", "message"), BAD)
def test_bad_options_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with raises(error, match=message):
        ChampionChallenger(2, 3, **options)
    ChampionChallenger(2, 3, p_init=0.01, depth=1, n_layers=2)
