"""Components whose weights are computed from others, by torch's parametrizations."""

import warnings
from collections.abc import Callable

import torch
from pytest import mark, param
from torch import nn
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

from allotment import extract
from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork
from tests.engine.test_trainer import EVERYTHING, assert_trained_plainly
from tests.training.toy import N_INPUTS, a_network, a_run, assert_one_program, fitted, outcomes_of

Make = Callable[[], nn.Module]


def of_weight_norm() -> nn.Module:
    layer: nn.Module = weight_norm(nn.Linear(N_INPUTS, 4))
    return layer


def of_deep_weight_norm() -> nn.Module:
    return nn.Sequential(weight_norm(nn.Linear(N_INPUTS, 5)), nn.Tanh(), nn.Linear(5, 4))


def of_spectral_norm() -> nn.Module:
    return spectral_norm(nn.Linear(N_INPUTS, 4))


def of_orthogonal() -> nn.Module:
    return orthogonal(nn.Linear(N_INPUTS, 4), orthogonal_map="cayley")


MAKES = [
    param(of_weight_norm, id="weight_norm"),
    param(of_deep_weight_norm, id="weight_norm inside"),
    param(of_spectral_norm, id="spectral_norm"),
    param(of_orthogonal, id="orthogonal"),
]


def build(make: Make) -> MultiTaskNetwork:
    return a_network(GumbelMatrix(2, 3), make=make)


@mark.usefixtures("double")
@mark.parametrize("n_runs", [1, 2])
@mark.parametrize("make", MAKES)
def test_parametrized_components_train_as_in_a_plainly_written_loop(
    make: Make, n_runs: int
) -> None:
    runs = [a_run(seed, EVERYTHING, build=lambda: build(make)) for seed in range(n_runs)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how they are computed is not the matter here
        outcomes = outcomes_of(runs)
    for run, outcome in zip(runs, outcomes, strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


@mark.filterwarnings("ignore:There is a performance drop")  # torch's, on a batched weight norm
@mark.parametrize("make", MAKES[:2])
def test_runs_of_weight_norm_are_vmapped_and_traced(make: Make) -> None:
    assert_one_program([a_run(seed, build=lambda: build(make)) for seed in range(2)])


@mark.parametrize("make", MAKES)
def test_a_parametrized_network_is_fitted_and_extracted(make: Make) -> None:
    network = build(make)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted(network)
    x = torch.randn(5, N_INPUTS)
    torch.testing.assert_close(extract(network, 1)(x), network(x, 1))


@mark.usefixtures("double")
def test_a_stem_may_be_parametrized() -> None:
    def with_stem() -> MultiTaskNetwork:
        network = a_network(GumbelMatrix(2, 3))
        network.stem = weight_norm(nn.Linear(N_INPUTS, N_INPUTS))
        return network

    run = a_run(settings=EVERYTHING, build=with_stem)
    assert_trained_plainly(run, outcomes_of([run])[0].weights, atol=1e-9)
