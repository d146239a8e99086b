"""How an allocation goes through training: many runs as one program, against a plain loop."""

import torch
from pytest import approx
from torch import nn

from allotment import plan
from allotment.modules import ModularLayer
from allotment.settings import TrainingSettings
from tests.engine.test_own_allocations import Build
from tests.engine.test_trainer import assert_trained_plainly
from tests.training.toy import SETTINGS, a_run, outcomes_of

# No penalties: what is charged for a share of exactly 0 has no plain form.
PLAIN = SETTINGS.changed(rounds=8, allocation_learning_rate=0.05, weight_decay=0.3, clip_norm=0.5)


def assert_runs_train_together(
    build: Build, schedule: str = "alternating", settings: TrainingSettings = PLAIN
) -> None:
    """Asserts that two runs are vmapped and traced and end as plainly written loops do.

    The caller asks for double precision. A run alone ends the same.
    """
    own = settings.changed(schedule=schedule)
    runs = [a_run(seed, own, build=build) for seed in range(2)]
    made = plan(runs)
    assert (made.runs.value, made.step.value) == ("vmapped", "traced"), str(made)
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)
    (alone,) = outcomes_of([a_run(0, own, build=build)])
    assert_trained_plainly(runs[0], alone.weights, atol=1e-9)


def assert_every_parameter_moves(build: Build) -> None:
    """Asserts that training for a few steps changes every parameter of the allocation."""
    run = a_run(0, PLAIN, build=build)
    (layer,) = run.network.modular_layers
    start = {name: value.clone() for name, value in layer.allocation.named_parameters()}
    (outcome,) = outcomes_of([run])
    assert start
    for name, value in start.items():
        assert not torch.equal(outcome.weights[f"layers.0.allocation.{name}"], value), name


def assert_mixes_by_example(layer: ModularLayer, x: torch.Tensor, task: int) -> None:
    """Asserts that a layer's output is each example's own weighted sum."""
    components: list[nn.Module] = list(layer.components)
    weights = layer.allocation.weights(task, x)
    outputs = torch.stack([component(x) for component in components], dim=1)  # [B, C, ...]
    expected = torch.einsum("bc,bcd->bd", weights, outputs)
    assert (layer(x, task=task) - expected).abs().max().item() == approx(0.0, abs=1e-6)
