"""Parameters that stay, and parameters that stand in several places."""

from collections.abc import Callable

import torch
from pytest import mark
from torch import nn

from allotment.allocation import FixedMatrix, GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork
from tests.engine.test_trainer import assert_trained_plainly
from tests.training.toy import N_INPUTS, SETTINGS, a_network, a_run, outcomes_of, weights_of


@mark.usefixtures("double")
@mark.parametrize("n_runs", [1, 2])
def test_frozen_parameters_stay(n_runs: int) -> None:
    def build() -> MultiTaskNetwork:
        network = a_network(SharedBottom(2, 2))
        network.get_parameter("layers.1.weight").requires_grad_(False)
        return network

    runs = [a_run(seed, build=build) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        start = run.network.state_dict()["layers.1.weight"]
        assert torch.equal(outcome.weights["layers.1.weight"], start)
        assert_trained_plainly(run, outcome.weights, atol=1e-10)


def of_tied_components() -> MultiTaskNetwork:
    shared = nn.Linear(N_INPUTS, 4)
    layer = ModularLayer(
        [shared, nn.Sequential(shared), nn.Linear(N_INPUTS, 4)],
        FixedMatrix([[True, False, True], [False, True, True]]),
    )
    return MultiTaskNetwork(None, [layer, nn.Linear(4, 1)])


def of_tied_heads() -> MultiTaskNetwork:
    head = nn.Linear(4, 1)
    return a_network(GumbelMatrix(2, 3), [head, head])


def of_tied_layers() -> MultiTaskNetwork:
    shared = nn.Linear(N_INPUTS, N_INPUTS)
    layer = ModularLayer([nn.Linear(N_INPUTS, N_INPUTS) for _ in range(2)], SharedBottom(2, 2))
    return MultiTaskNetwork(shared, [layer, nn.Tanh(), shared, nn.Linear(N_INPUTS, 1)])


@mark.usefixtures("double")
@mark.parametrize("build", [of_tied_components, of_tied_heads, of_tied_layers])
def test_what_is_shared_learns_as_one(build: Callable[[], MultiTaskNetwork]) -> None:
    run = a_run(build=build)
    assert_trained_plainly(run, weights_of(run), atol=1e-9)


@mark.usefixtures("double")
def test_a_component_that_is_frozen_later_stays() -> None:
    run = a_run()
    run.network.get_submodule("layers.0.components.1").requires_grad_(False)
    assert_trained_plainly(run, weights_of(run), atol=1e-9)


def with_one_head_and_gates() -> MultiTaskNetwork:
    """All but the second head and the gates is frozen."""
    network = a_network(GumbelMatrix(2, 3), [nn.Linear(4, 1), nn.Linear(4, 1)])
    network.requires_grad_(False)
    network.modular_layers[0].allocation.requires_grad_(True)
    network.get_submodule("heads.1").requires_grad_(True)
    return network


@mark.usefixtures("double")
@mark.filterwarnings("ignore:Training one run at a time")
@mark.parametrize("n_runs", [1, 2])
@mark.parametrize("schedule", ["alternating", "joint"])
def test_one_head_and_the_gates_train_alone(n_runs: int, schedule: str) -> None:
    settings = SETTINGS.changed(schedule=schedule, weight_decay=0.1, budget=0.3)
    runs = [a_run(seed, settings, build=with_one_head_and_gates) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-10)
        start = run.network.state_dict()
        moved = {name for name, value in outcome.weights.items() if (value != start[name]).any()}
        allocation = "layers.0.allocation"
        expected = {f"{allocation}.logits", f"{allocation}.n_batches"}
        assert moved == expected | {"heads.1.weight", "heads.1.bias"}


@mark.usefixtures("double")
def test_only_gates_train() -> None:
    def build() -> MultiTaskNetwork:
        network = a_network(GumbelMatrix(2, 3)).requires_grad_(False)
        network.modular_layers[0].allocation.requires_grad_(True)
        return network

    run = a_run(build=build)
    assert_trained_plainly(run, weights_of(run), atol=1e-10)


@mark.usefixtures("double")
@mark.parametrize("n_runs", [1, 2])
def test_a_component_that_is_the_stem_too_learns_as_one(n_runs: int) -> None:
    def build() -> MultiTaskNetwork:
        stem = nn.Linear(N_INPUTS, N_INPUTS)
        components = [stem, nn.Linear(N_INPUTS, N_INPUTS), nn.Linear(N_INPUTS, N_INPUTS)]
        layer = ModularLayer(components, GumbelMatrix(2, 3))
        return MultiTaskNetwork(stem, [layer, nn.Linear(N_INPUTS, 1)])

    runs = [a_run(seed, build=build) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)
        name = "layers.0.components.0.weight"
        assert torch.equal(outcome.weights[name], outcome.weights["stem.weight"])
