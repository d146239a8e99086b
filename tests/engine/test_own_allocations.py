"""Ways of sharing of one's own go through all of training, and nothing in it knows them."""

import warnings
from collections.abc import Callable
from dataclasses import replace

import torch
from numpy.testing import assert_allclose
from pytest import approx, mark, param, raises
from torch import nn
from torch.testing import assert_close

from allotment import extract, plan
from allotment._engine import FlatParameters
from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.training import Run
from tests.engine.own_allocations import (
    Baselined,
    GatesByExample,
    Hardening,
    LoadBalanced,
    Rewarded,
    Routed,
    SoftMixture,
)
from tests.engine.test_trainer import (
    EVERYTHING,
    assert_one_program_of_plain_loops,
)
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    assert_resumed_to_the_bit,
    fitted,
    lines,
    n_different,
    outcomes_of,
)

CPU = torch.device("cpu")
Build = Callable[[], MultiTaskNetwork]


def gates_by_example() -> MultiTaskNetwork:
    return a_network(GatesByExample(2, 3, N_INPUTS))


def gates_of_both_kinds() -> MultiTaskNetwork:
    """Layers with draws for each example and for each batch, in turns."""
    layers = [
        ModularLayer([nn.Linear(N_INPUTS, 5) for _ in range(3)], GatesByExample(2, 3, N_INPUTS)),
        ModularLayer([nn.Linear(5, 4) for _ in range(2)], GumbelMatrix(2, 2)),
        ModularLayer([nn.Linear(4, 4) for _ in range(2)], GatesByExample(2, 2, 4)),
        nn.Linear(4, 1),
    ]
    return MultiTaskNetwork(None, layers)


def soft_mixture() -> MultiTaskNetwork:
    return a_network(SoftMixture(2, 3), [nn.Linear(4, 1), nn.Linear(4, 1)])


def routed() -> MultiTaskNetwork:
    return a_network(Routed(2, 3))


def load_balanced() -> MultiTaskNetwork:
    return a_network(LoadBalanced(2, 3))


def soft_ordering() -> MultiTaskNetwork:
    """The same components in every layer, in an order of each task's own."""
    components = [nn.Sequential(nn.Linear(N_INPUTS, N_INPUTS), nn.Tanh()) for _ in range(3)]
    layers = [ModularLayer(components, SoftMixture(2, 3)) for _ in range(3)]
    return MultiTaskNetwork(None, [*layers, nn.Linear(N_INPUTS, 1)])


def baselined() -> MultiTaskNetwork:
    return a_network(Baselined(2, 3))


def rewarded() -> MultiTaskNetwork:
    return a_network(Rewarded(2, 3))


def hardening() -> MultiTaskNetwork:
    return a_network(Hardening(2, 3))


WAYS = [
    param(gates_by_example, id="gates by example"),
    param(gates_of_both_kinds, id="gates by example and by batch"),
    param(soft_mixture, id="soft mixture"),
    param(routed, id="router"),
    param(load_balanced, id="load balance"),
    param(soft_ordering, id="shared components"),
    param(baselined, id="running baseline"),
    param(rewarded, id="a running loss of each task"),
    param(hardening, id="an advance that looks at values"),
]


def runs_of(build: Build, n_runs: int, **changes: object) -> list[Run]:
    settings = EVERYTHING.changed(**{"rounds": 12} | changes)
    return [a_run(seed, settings, build=build) for seed in range(n_runs)]


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", param("joint", marks=mark.slow)])
@mark.parametrize("build", WAYS)
def test_runs_are_vmapped_and_traced_and_equal_plainly_written_loops(
    build: Build, schedule: str
) -> None:
    assert_one_program_of_plain_loops(runs_of(build, 3, schedule=schedule))


@mark.slow
@mark.usefixtures("double")
@mark.parametrize("trace", [param(True, marks=mark.slow), False])
@mark.parametrize("build", WAYS)
def test_a_run_alone_ends_as_it_does_with_others(build: Build, trace: bool) -> None:
    (alone,) = runs_of(build, 1, trace=trace)
    assert plan([alone]).step.value == ("traced" if trace else "eager")
    together = outcomes_of(runs_of(build, 2))[0]
    for name, value in outcomes_of([alone])[0].weights.items():
        assert_close(together.weights[name], value, rtol=0, atol=1e-9, msg=f"{name}: {{}}".format)


@mark.parametrize("build", WAYS)
def test_fitting_trains_components_and_allocation_in_silence(build: Build) -> None:
    network = build()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = fitted(network, rounds=20)
    for name, _ in network.named_parameters():
        assert not torch.equal(before[name], network.state_dict()[name]), name
    assert_allclose(result.embeddings, network.matrix().detach(), rtol=1e-6)
    assert_allclose(result.probabilities, network.probabilities().detach(), rtol=1e-5)
    is_binary = all(layer.allocation.is_binary for layer in network.modular_layers)
    assert set(result.embeddings.flatten()) <= {0.0, 1.0} if is_binary else True


@mark.parametrize(
    "build", [soft_mixture, routed, load_balanced, soft_ordering, rewarded, hardening]
)
def test_a_task_is_extracted(build: Build) -> None:
    network = build()
    fitted(network)
    x = torch.randn(7, N_INPUTS)
    for task in range(2):
        assert_close(extract(network, task)(x), network(x, task), rtol=0, atol=1e-6)


@mark.parametrize(("build", "kind"), [(gates_by_example, "GatesByExample")])
def test_what_differs_between_examples_is_not_extracted(build: Build, kind: str) -> None:
    network = build()
    rule = r"^`network` should have allocations that do not look at examples: .*\. Found "
    with raises(ValueError, match=rule + kind + r", whose weights differ from example to example"):
        extract(network, 0)


def test_all_parameters_inside_an_allocation_are_in_its_group() -> None:
    for build in (gates_by_example, routed):
        parameters = FlatParameters([build()], CPU)
        names = {f"layers.0.allocation.{n}" for n, _ in allocation_of(build()).named_parameters()}
        assert set(parameters.names["allocation"]) == names
        assert len(names) >= 4  # of the router too, its biases and norms among them


def allocation_of(network: MultiTaskNetwork) -> nn.Module:
    return network.modular_layers[0].allocation


@mark.parametrize("build", [gates_by_example, routed])
def test_a_router_has_the_rate_of_the_allocation_and_no_weight_decay(build: Build) -> None:
    # Adam's first step is as long as the rate, whatever the gradient.
    changes = {"learning_rate": 1e-3, "allocation_learning_rate": 0.05, "batch_size": 64}
    steps = []
    for weight_decay in (0.0, 100.0):
        settings = SETTINGS.changed(rounds=1, schedule="joint", weight_decay=weight_decay)
        run = a_run(settings=settings.changed(**changes), build=build)
        start = run.network.state_dict()
        (outcome,) = outcomes_of([run])
        steps.append({name: value - start[name] for name, value in outcome.weights.items()})
    for name, step in steps[0].items():
        is_allocated = ".allocation." in name
        assert step.abs().max() == approx(0.05 if is_allocated else 1e-3, rel=0.02), name
        if is_allocated:
            assert torch.equal(step, steps[1][name])


@mark.slow
@mark.parametrize("build", WAYS)
def test_going_on_from_a_state_ends_the_same_to_the_bit(build: Build) -> None:
    def runs() -> list[Run]:
        return [replace(run, settings=SETTINGS.changed(rounds=20)) for run in runs_of(build, 2)]

    assert_resumed_to_the_bit(runs)


@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("n_runs", [1, 2])
def test_an_allocation_takes_note_of_every_task_batch(schedule: str, n_runs: int) -> None:
    for outcome in outcomes_of(runs_of(baselined, n_runs, schedule=schedule)):
        assert int(outcome.weights["layers.0.allocation.n_batches"]) == 24
        assert float(outcome.weights["layers.0.allocation.baseline"]) > 0.3


def test_what_an_auxiliary_loss_adds_is_not_in_the_losses_that_are_told() -> None:
    changes = {"rounds": 1, "budget": None, "connection_weight": 0.0, "disconnect_weight": 0.0}
    (run,) = runs_of(load_balanced, 1, **changes, entropy_weight=0.0, schedule="joint")
    other = replace(run, model=a_network(SoftMixture(2, 3)))
    other.network.load_state_dict(run.network.state_dict())
    found, expected = (outcomes_of([each])[0] for each in (run, other))
    assert found.final_loss == expected.final_loss  # of the first step, before it is taken
    assert n_different(found.weights, expected.weights) > 0


def test_shared_components_are_one_set_of_weights() -> None:
    network = soft_ordering()
    fitted(network, lines())
    first, *others = network.modular_layers
    for layer in others:
        for own, shared in zip(layer.components, first.components, strict=True):
            assert own is shared
