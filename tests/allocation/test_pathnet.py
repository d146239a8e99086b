"""Paths of components, and how they mutate."""

from typing import Any

import torch
from pytest import mark, raises
from torch.testing import assert_close

from allotment.allocation import PathNet


def test_a_path_uses_the_components_it_names_each_once() -> None:
    path_net = PathNet(1, 4, n_active=3)
    members = torch.tensor([[0, 2, 3], [1, 1, 1], [3, 0, 3]])
    assert path_net.opened(members).int().tolist() == [[1, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, 1]]


def test_outputs_are_summed_or_averaged() -> None:
    for reduce, expected in (("sum", [1.0, 0.0, 1.0]), ("mean", [0.5, 0.0, 0.5])):
        path_net = PathNet(1, 3, n_active=2, n_members=2, reduce=reduce)
        path_net.members = torch.tensor([[[0, 2], [0, 2]]])
        assert path_net.weights(0).tolist() == expected


def test_first_paths_are_drawn_evenly() -> None:
    n_members, n = 4_000, 4_000 * 3
    shares = PathNet(1, 8, n_members=n_members).members.flatten().bincount(minlength=8) / n
    standard_error = (1 / 8 * 7 / 8 / n) ** 0.5
    assert_close(shares, torch.full((8,), 1 / 8), rtol=0, atol=4 * standard_error)


@mark.parametrize("n_layers", [1, 4])
def test_a_number_changes_as_often_and_as_far_as_published(n_layers: int) -> None:
    n_tasks, n_active, n_components = 5_000, 3, 11
    path_net = PathNet(n_tasks, n_components, n_active=n_active, n_members=2, n_layers=n_layers)
    before = path_net.members[:, 0]
    steps = (path_net.mutated(before) - before + 2) % n_components  # from -2 .. 2 to 0 .. 4
    assert steps.max() <= 4
    n = n_tasks * n_active
    p = 1 / (n_active * n_layers)
    for step in range(5):
        expected = p / 5 + (1 - p) * (step == 2)
        standard_error = (expected * (1 - expected) / n) ** 0.5
        found = float((steps == step).sum()) / n
        assert_close(found, expected, rtol=0, atol=4 * standard_error)


def test_each_layer_and_each_tournament_mutates_by_itself() -> None:
    one, other = PathNet(400, 11, n_active=1), PathNet(400, 11, n_active=1)
    members = torch.full((400, 1), 5)
    first = one.mutated(members)
    assert torch.equal(first, one.mutated(members))
    assert 200 < int((first != other.mutated(members)).sum()) < 400
    one.n_over = one.n_over + 1
    assert 200 < int((first != one.mutated(members)).sum()) < 400


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"n_active": 0}, ValueError, r"^`n_active` should be at least 1\. Found `n_active = 0`\.$"),
    ({"n_members": 1}, ValueError, r"^`n_members` should be at least 2\. Found `n_members = 1`\.$"),
    ({"n_members": 2.0}, TypeError, r"^`n_members` should be a whole number\. Found .* = 2\.0`\.$"),
]


@mark.parametrize(("options", "error", "message"), BAD)
def test_bad_options_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with raises(error, match=message):
        PathNet(2, 3, **options)
    PathNet(2, 3, n_active=1, n_members=2)
    PathNet(2, 3, n_active=5)  # more than there are: some are named twice


def test_it_prints_itself() -> None:
    assert repr(PathNet(2, 3, n_each=7)) == "PathNet(n_tasks=2, n_components=3, n_each=7)"
