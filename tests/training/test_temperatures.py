"""Runs that train together may have different temperatures."""

from typing import Any

import torch
from pytest import mark
from torch import nn

from allotment._engine import FlatParameters
from allotment.allocation import Annealing, GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.training import Run, plan, train
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    assert_same_end,
    component,
    n_different,
    outcomes_of,
    progress_of,
)

# The second and the third stand at their floors after a few batches.
ANNEALINGS = [Annealing(), Annealing(start=2.0), Annealing(start=2.0, floor=1.5)]


def of_temperature(seed: int, temperature: Annealing, **changed: Any) -> Run:
    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 3, temperature=temperature))

    return a_run(seed, SETTINGS.changed(rounds=20, learning_rate=0.03, **changed), build=build)


def runs_of(seeds: tuple[int, ...] = (0, 1, 2), **changed: Any) -> list[Run]:
    pairs = zip(seeds, ANNEALINGS, strict=True)
    return [of_temperature(seed, temperature, **changed) for seed, temperature in pairs]


@mark.parametrize(
    "changed",
    [
        {},
        {"trace": False},
        {"schedule": "joint"},
        {"budget": 0.5, "entropy_weight": 0.1},
        {"ema_decay": 0.9},
    ],
    ids=lambda changed: next(iter(changed), "plain"),
)
@mark.usefixtures("double")
def test_runs_of_different_temperatures_end_as_each_does_alone(
    changed: dict[str, Any], device: torch.device
) -> None:
    together = outcomes_of(runs_of(**changed), device=device)
    for outcome, run in zip(together, runs_of(**changed), strict=True):
        (alone,) = outcomes_of([run], device=device)
        assert_same_end(outcome, alone)


@mark.usefixtures("double")
def test_the_temperature_is_each_runs_own() -> None:
    ends = [outcome.weights for outcome in outcomes_of(runs_of(seeds=(0, 0, 0)))]
    assert n_different(ends[0], ends[1]) and n_different(ends[1], ends[2])


def test_they_are_one_program() -> None:
    found = plan(runs_of())
    assert (found.runs.value, found.step.value) == ("vmapped", "traced")


@mark.usefixtures("double")
def test_layers_may_have_temperatures_of_their_own() -> None:
    def of_two_layers(seed: int, first: Annealing, second: Annealing) -> Run:
        def build() -> MultiTaskNetwork:
            layers = [
                ModularLayer(
                    [component() for _ in range(3)], GumbelMatrix(2, 3, temperature=first)
                ),
                ModularLayer(
                    [nn.Linear(4, 1) for _ in range(3)], GumbelMatrix(2, 3, temperature=second)
                ),
            ]
            return MultiTaskNetwork(None, layers)

        return a_run(seed, build=build)

    def runs() -> list[Run]:
        return [of_two_layers(seed, ANNEALINGS[1], ANNEALINGS[seed]) for seed in (0, 1, 2)]

    for outcome, run in zip(outcomes_of(runs()), runs(), strict=True):
        assert_same_end(outcome, outcomes_of([run])[0])


def test_temperatures_that_agree_leave_the_program_as_it_is() -> None:
    runs = [of_temperature(seed, ANNEALINGS[1]) for seed in (0, 1)]
    parameters = FlatParameters([run.network for run in runs], torch.device("cpu"))
    assert not parameters.buffers
    differing = FlatParameters([run.network for run in runs_of()], torch.device("cpu"))
    (numbers,) = differing.buffers.values()
    assert numbers.tolist() == [[50.0, 0.5], [2.0, 0.5], [2.0, 1.5]]


def test_states_have_no_temperature_in_them() -> None:
    runs = runs_of()
    names = list(runs[0].network.state_dict())
    assert "layers.0.allocation.annealing" not in names
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert list(outcome.weights) == names
        run.network.load_state_dict(outcome.weights)
        (layer,) = run.network.modular_layers
        assert isinstance(layer.allocation, GumbelMatrix)
        assert layer.allocation.temperature == ANNEALINGS[run.seed]


def test_a_copy_in_the_middle_of_training_has_its_own_temperature() -> None:
    progress = progress_of(runs_of())[0]
    for run, temperature in enumerate(ANNEALINGS):
        copy = progress.network(run)
        allocation = next(m for m in copy.modules() if isinstance(m, GumbelMatrix))
        assert allocation.temperature == temperature
        assert allocation.annealing is None
        assert copy(torch.randn(2, N_INPUTS), 0).shape == (2, 1)


def test_they_go_on_from_a_state_to_the_bit() -> None:
    straight = progress_of(runs_of())[-1].outcomes
    first = next(iter(train(runs_of())))
    assert first.round == 10 and first.state is not None
    *_, last = train(runs_of(), resume_from=first.state())
    assert straight is not None and last.outcomes is not None
    for a, b in zip(straight, last.outcomes, strict=True):
        assert n_different(a.weights, b.weights) == 0
