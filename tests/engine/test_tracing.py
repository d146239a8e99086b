"""The traced step: equal to the step itself, and given up where it cannot be traced."""

import random
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from pytest import mark, warns
from torch import Tensor, nn
from torch.testing import assert_close

from allotment._engine._trainer import Trainer
from allotment.allocation import Annealing, FixedMatrix, GumbelMatrix
from allotment.modules import MultiTaskNetwork
from allotment.training import Run
from tests.training.reference import plainly_trained
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    classes,
    n_different,
    outcomes_of,
    picture_network,
    pictures,
    weights_of,
)

# Everything that changes from step to step: the temperature, the ramp, idle rows.
CHANGING = SETTINGS.changed(rounds=25, entropy_weight=0.5, clip_norm=0.5, budget=0.3)


def a_classifier(seed: int, *, trace: bool) -> Run:
    def build() -> MultiTaskNetwork:
        allocation = GumbelMatrix(2, 3, temperature=Annealing(start=2.0, floor=0.5))
        return a_network(allocation, [nn.Linear(4, 2), nn.Linear(4, 4)], dropout=0.3)

    settings = CHANGING.changed(trace=trace)
    return a_run(seed, settings, tasks=classes(2, 4), build=build)


@mark.usefixtures("double")
@mark.parametrize("n_runs", [1, 2])
def test_a_traced_step_equals_the_step_itself(n_runs: int) -> None:
    traced, itself = (
        outcomes_of([a_classifier(seed, trace=trace) for seed in range(n_runs)])
        for trace in (True, False)
    )
    for a, b in zip(traced, itself, strict=True):
        for name, value in b.weights.items():
            assert_close(a.weights[name], value, rtol=0, atol=1e-11)


# The recorded operations are those of the step itself, and gave the same bits where this was tried.
# A library may choose another order of sums, which moves a loss of about 1 by 1e-7; the rate is
# small, so that this does not grow much on the way.
ROUNDING = 1e-5


@mark.slow
@mark.parametrize("schedule", ["alternating", "joint"])
def test_a_traced_step_stays_with_the_step_itself_over_200_steps(schedule: str) -> None:
    n_batches = 200 if schedule == "alternating" else 400  # of two tasks
    settings = SETTINGS.changed(rounds=n_batches // 2, schedule=schedule, learning_rate=1e-4)
    losses = []
    for trace in (True, False):
        run = a_run(
            settings=settings.changed(trace=trace),
            tasks=pictures(3, 2),
            build=lambda: picture_network(3, 2),
        )
        trainer = Trainer([run], torch.device("cpu"))
        blocks = [trainer.steps(number, 20)[0] for number in range(n_batches // 20)]
        losses.append(torch.cat(blocks))
    traced, itself = losses
    assert len(itself) == n_batches
    assert itself[-40:].mean() < itself[:40].mean()  # it is training
    assert_close(traced, itself, rtol=0, atol=ROUNDING)


class LooksAtValues(nn.Module):
    """A component that looks at its input to decide what to do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(N_INPUTS, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x if x.sum() > 0 else -x)
        return y


class SaysNothing(LooksAtValues):
    """A component whose error, where values cannot be looked at, has no words."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            x[0, 0].item()
        except RuntimeError:
            raise AssertionError from None
        y: Tensor = self.linear(x)
        return y


def a_run_of(make: Callable[[], nn.Module], seed: int = 0) -> Run:
    return a_run(seed, build=lambda: a_network(GumbelMatrix(2, 3), make=make))


@mark.usefixtures("double")
def test_a_component_that_looks_at_values_trains_with_one_warning() -> None:
    run = a_run_of(LooksAtValues)
    with warns(UserWarning, match=r"^Training without a recorded step, .*: .*value") as caught:
        weights = weights_of(run)
    assert len(caught) == 1
    for name, value in plainly_trained(run)[0].named_parameters():
        assert_close(weights[name], value.detach(), rtol=0, atol=1e-9)


@mark.usefixtures("double")
def test_without_tracing_nothing_is_said() -> None:
    run = a_run_of(LooksAtValues)
    run = replace(run, settings=run.settings.changed(trace=False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights_of(run)


@mark.parametrize("n_runs", [1, 2])
def test_an_error_without_words_is_a_reason_too(n_runs: int) -> None:
    with warns(UserWarning, match=r"AssertionError"):
        outcomes_of([a_run_of(SaysNothing, seed) for seed in range(n_runs)])


class WarmingUp(LooksAtValues):
    """A component that counts its passes in Python and gives nothing in the first ones."""

    def __init__(self) -> None:
        super().__init__()
        self.n_passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.n_passes += 1
        y: Tensor = self.linear(x) * float(self.n_passes > 10)
        return y


class Tossing(LooksAtValues):
    """A component that tosses a coin of Python's, or of NumPy's."""

    coin = staticmethod(random.random)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x) * float(self.coin() < 0.5)
        return y


class TossingNumpy(Tossing):
    coin = staticmethod(np.random.random)


@mark.usefixtures("double")
def test_a_component_that_counts_in_python_is_not_frozen() -> None:
    run = a_run_of(WarmingUp)
    with warns(UserWarning, match=r"^Training without .*: a pass changes `n_passes` of WarmingUp"):
        weights = weights_of(run)
    itself = weights_of(replace(run, settings=run.settings.changed(trace=False)))
    assert n_different(weights, itself) == 0
    for name, value in plainly_trained(run)[0].named_parameters():
        assert_close(weights[name], value.detach(), rtol=0, atol=1e-9)


@mark.parametrize(("make", "found"), [(Tossing, "`random`"), (TossingNumpy, "NumPy's generator")])
def test_a_component_that_draws_from_python_is_not_frozen(
    make: Callable[[], nn.Module], found: str
) -> None:
    before = random.getstate()
    with warns(UserWarning, match=rf"^Training without .*: a pass draws from .*{found}"):
        Trainer([a_run_of(make)], torch.device("cpu"))
    assert random.getstate() == before


class Counting(nn.Module):
    """A component that counts its passes in a buffer."""

    n_passes: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(N_INPUTS, 4)
        self.register_buffer("n_passes", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.n_passes += 1
        y: Tensor = self.linear(x)
        return y


@mark.parametrize("n_runs", [1, 2])
def test_a_buffer_moves_once_a_step_that_uses_its_component(n_runs: int) -> None:
    matrix = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])

    def build() -> MultiTaskNetwork:
        return a_network(FixedMatrix(matrix), make=Counting)

    for outcome in outcomes_of([a_run(seed, build=build) for seed in range(n_runs)]):
        counts = [int(outcome.weights[f"layers.0.components.{c}.n_passes"]) for c in range(3)]
        assert counts == [2 * SETTINGS.rounds, SETTINGS.rounds, 0]
