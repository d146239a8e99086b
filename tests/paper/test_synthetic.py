"""Synthetic pairs: their directions, their labels, their seeds."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise

import torch
from pytest import mark, raises
from torch import Tensor
from torch.testing import assert_close

from allotment.paper import EXPERIMENTS, synthetic_pairs
from allotment.paper._synthetic import SineSamples
from allotment.tasks import Task


def directions(tasks: list[Task]) -> Tensor:
    """Returns the direction of each task, ``[T, d]``."""
    assert all(isinstance(task.train, SineSamples) for task in tasks)
    return torch.stack([task.train.direction for task in tasks])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@mark.parametrize("n_pairs", [1, 3, 64])
def test_unrelated_directions_are_orthonormal(n_pairs: int) -> None:
    w = directions(synthetic_pairs(n_pairs, 0.0, seed=0))
    assert_close(w @ w.T, torch.eye(2 * n_pairs), rtol=0, atol=1e-5)


@mark.parametrize("rho", [0.0, 0.3, 0.9, 1.0])
def test_rho_is_the_cosine_inside_a_pair_and_zero_across(rho: float) -> None:
    w = directions(synthetic_pairs(3, rho, seed=1))
    inside = torch.tensor([[1.0, rho], [rho, 1.0]])
    assert_close(w @ w.T, torch.block_diag(inside, inside, inside), rtol=0, atol=1e-5)


def test_a_direction_points_anywhere() -> None:
    n = 200
    first = torch.stack([directions(synthetic_pairs(1, 0.0, seed=s))[0, 0] for s in range(n)])
    assert abs((first.square().mean() - 1 / 128).item()) < 4 * (2 / n) ** 0.5 / 128


def test_labels_follow_the_formula_within_the_noise() -> None:
    n = 10_000
    for task in synthetic_pairs(2, 0.5, seed=2):
        x, y = task.train.draw(n, generator())
        z = x.double() @ task.train.direction.double()
        clean = z + sum(torch.sin(i * z + (i - 1) ** 2) for i in range(1, 7))
        noise = y.double() - clean
        assert x.shape == (n, 128) and y.shape == (n,)
        assert abs(noise.mean().item()) < 4 * 0.01 / n**0.5
        assert abs(noise.std().item() - 0.01) < 4 * 0.01 / (2 * n) ** 0.5


def test_inputs_are_standard_normal() -> None:
    n = 2_000
    x, _ = synthetic_pairs(1, 0.0, seed=0)[0].train.draw(n, generator())
    numbers = x.flatten()
    assert abs(numbers.mean().item()) < 4 / len(numbers) ** 0.5
    assert abs(numbers.var().item() - 1) < 4 * (2 / len(numbers)) ** 0.5


def test_a_seed_fixes_the_directions() -> None:
    first, again, other = (directions(synthetic_pairs(2, 0.5, seed=s)) for s in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_the_same_seed_gives_the_same_first_tasks_at_any_rho() -> None:
    first, other = (directions(synthetic_pairs(2, rho, seed=5)) for rho in (0.0, 1.0))
    assert torch.equal(first[[0, 2]], other[[0, 2]])


def test_a_generator_fixes_the_samples() -> None:
    samples = synthetic_pairs(1, 0.5, seed=0)[0].train
    first, again, other = (samples.draw(4, generator(s)) for s in (1, 1, 2))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.allclose(first[0], other[0])


def test_tasks_are_named_by_pair_and_letter() -> None:
    tasks = synthetic_pairs(2, 0.5, seed=0)
    assert [task.name for task in tasks] == ["1a", "1b", "2a", "2b"]
    assert [task.family for task in tasks] == ["pair 1", "pair 1", "pair 2", "pair 2"]
    assert all(task.n_outputs == 1 and not task.is_classification for task in tasks)


@mark.parametrize(
    ("rho", "expectation"),
    [
        (-0.01, raises(ValueError, match=r"`rho` should be in \[0, 1\]\. Found `rho = -0.01`")),
        (0.0, does_not_raise()),
        (1.0, does_not_raise()),
        (1.01, raises(ValueError, match=r"`rho` should be in \[0, 1\]\. Found `rho = 1.01`")),
        (float("nan"), raises(ValueError, match=r"`rho` should be in \[0, 1\]\. Found .*nan")),
    ],
)
def test_rho_range(rho: float, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        synthetic_pairs(1, rho, seed=0)


@mark.parametrize(
    ("n_pairs", "expectation"),
    [
        (0, raises(ValueError, match=r"`n_pairs` should be at least 1\. Found `n_pairs = 0`")),
        (1, does_not_raise()),
        (64, does_not_raise()),
        (65, raises(ValueError, match=r"`n_pairs` should be at most 64\. Found 65")),
    ],
)
def test_there_are_directions_for_every_pair(
    n_pairs: int, expectation: AbstractContextManager[object]
) -> None:
    with expectation:
        synthetic_pairs(n_pairs, 0.5, seed=0)


def test_components_of_shared_bottoms_are_averaged_in_every_experiment_on_pairs() -> None:
    for name in ("two_pairs", "transfer"):
        experiment = EXPERIMENTS[name]
        method = experiment.method("shared_bottom")
        network = experiment.build_network(method, dict.fromkeys("abcd", 1), seed=0)
        for layer in network.modular_layers:
            assert_close(layer.allocation.weights(0).sum(), torch.tensor(1.0))
