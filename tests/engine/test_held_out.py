"""Allocations that learn on held-out batches, beside weights that learn on the others."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import torch
from pytest import approx, mark, param
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.testing import assert_close

from allotment._engine import Trainer
from allotment.allocation import Allocation, GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork, Operations, TaskNetwork
from allotment.settings import Optimization, TrainingSettings, UncertaintyWeighting
from allotment.training import Run
from tests.engine.own_allocations import GatesByExample, LoadBalanced, Rewarded, SoftMixture
from tests.engine.test_observe import diary as diary
from tests.engine.test_observe import pages_of
from tests.engine.test_trainer import EVERYTHING, bent, plain
from tests.training.reference import an_optimizer, loss_of, penalty, steps_of
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    assert_resumed_to_the_bit,
    classes,
    lines,
    outcomes_of,
    planned_outcomes_of,
    progress_of,
)

SHARE = 0.3
HELD_OUT = EVERYTHING.changed(rounds=12, allocation_held_out=SHARE)


def trained_on_two_levels(run: Run) -> tuple[TaskNetwork, list[float]]:
    """Trains a copy of a run's network by plain operations; returns it and the weights' losses."""
    network, settings = deepcopy(run.network).train(), run.settings
    optimizer = an_optimizer(network, settings)
    modules = [module for module in network.modules() if isinstance(module, Allocation)]
    allocated = list(dict.fromkeys(p for module in modules for p in module.parameters()))
    others = [p for p in network.parameters() if all(p is not own for own in allocated)]
    per_step = len(run.tasks) if settings.is_joint else 1
    n_batches = settings.rounds * len(run.tasks)
    drawn = zip(steps_of(run), steps_of(run, held_out=True), strict=True)
    losses: list[float] = []
    for batches in zip(*[drawn] * per_step, strict=True):
        progress = len(losses) / n_batches
        inner, outer, observed = torch.zeros(()), torch.zeros(()), []
        for batch, beside in batches:
            weight = run.tasks[batch.task].weight
            loss, _ = loss_of(network, run, batch)
            held, extra = loss_of(network, run, beside)
            charge = penalty(network, beside.task, settings, progress) + extra
            inner = inner + weight * loss / per_step
            outer = outer + (weight * held + charge) / per_step
            losses.append(loss.item())
            observed.append((beside.task, held.detach()))
        for total, parameters in ((inner, others), (outer, allocated)):
            if not parameters:  # an allocation that only takes notes
                continue
            found = torch.autograd.grad(
                total, parameters, allow_unused=True, materialize_grads=True
            )
            for parameter, gradient in zip(parameters, found, strict=True):
                parameter.grad = gradient
        if settings.optimization.clip_norm is not None:
            clip_grad_norm_(network.parameters(), settings.optimization.clip_norm)
        optimizer.step()
        for module in modules:
            for task, held in observed:
                module.observe(task, held)
                module.advance()
    return network, losses


def two_layers() -> MultiTaskNetwork:
    first = [plain(N_INPUTS, 5), bent(N_INPUTS, 5), plain(N_INPUTS, 5)]
    layers = [
        ModularLayer(first, GumbelMatrix(2, 3, p_init=0.7)),
        nn.LayerNorm(5),
        ModularLayer([bent(5, 4), plain(5, 4)], GumbelMatrix(2, 2)),
    ]
    heads = [nn.Linear(4, 2), nn.Linear(4, 3)]
    return MultiTaskNetwork(nn.Linear(N_INPUTS, N_INPUTS), layers, heads, dropout=0.3)


def of_classes(seed: int, settings: TrainingSettings) -> Run:
    return a_run(seed, settings, tasks=classes(2, 3), build=two_layers)


def of_lines(seed: int, settings: TrainingSettings) -> Run:
    tasks = [replace(task, weight=weight) for task, weight in zip(lines(), (3.0, 0.5), strict=True)]
    return a_run(seed, settings, tasks=tasks)


def of_shares(kind: Callable[..., Allocation], *sizes: int) -> Callable[..., Run]:
    def make(seed: int, settings: TrainingSettings) -> Run:
        return a_run(seed, settings, build=lambda: a_network(kind(2, 3, *sizes)))

    return make


RUNS = [
    param(of_classes, id="classes, two layers, dropout"),
    param(of_lines, id="generated examples, weighed"),
    param(of_shares(LoadBalanced), id="auxiliary loss"),
    param(of_shares(GatesByExample, N_INPUTS), id="gates by example"),
    param(of_shares(Rewarded), id="an observed loss"),
]
Make = Callable[[int, TrainingSettings], Run]


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("n_runs", [param(1, marks=mark.slow), 3])
@mark.parametrize("make", RUNS)
def test_training_equals_a_loop_of_two_levels_written_plainly(
    make: Make, n_runs: int, schedule: str
) -> None:
    runs = [make(seed, HELD_OUT.changed(schedule=schedule)) for seed in range(n_runs)]
    made, outcomes = planned_outcomes_of(runs)
    assert (made.runs.value, made.step.value) == ("alone" if n_runs == 1 else "vmapped", "traced")
    for run, outcome in zip(runs, outcomes, strict=True):
        network, losses = trained_on_two_levels(run)
        for name, value in network.state_dict().items():
            if not name.endswith("n_batches"):
                message = f"{name}: {{}}".format
                assert_close(outcome.weights[name], value, rtol=0, atol=1e-9, msg=message)
        assert outcome.final_loss == approx(sum(losses) / len(losses), abs=1e-9)


@mark.usefixtures("double")
def test_a_step_that_is_not_recorded_is_the_same() -> None:
    found = [
        outcomes_of([of_classes(0, HELD_OUT.changed(trace=trace))])[0].weights
        for trace in (True, False)
    ]
    for name, value in found[0].items():
        assert_close(found[1][name], value, rtol=0, atol=1e-9)


@mark.usefixtures("double")
def test_weights_and_allocation_follow_gradients_of_their_own_batch() -> None:
    # Plain descent: what a step moves is the gradient, by hand.
    settings = TrainingSettings(
        rounds=1,
        batch_size=8,
        schedule="joint",
        optimization=Optimization(
            learning_rate=1.0,
            allocation_held_out=SHARE,
            optimizer=lambda groups: torch.optim.SGD(groups, lr=1.0),
        ),
    )
    run = a_run(3, settings, build=lambda: a_network(SoftMixture(2, 3)))
    moved = {
        name: run.network.state_dict()[name] - value
        for name, value in outcomes_of([run])[0].weights.items()
    }
    network = deepcopy(run.network).train()
    gradients: list[dict[str, Tensor]] = []
    for is_held_out in (False, True):
        network.zero_grad()
        steps = [step for step, _ in zip(steps_of(run, held_out=is_held_out), "ab", strict=False)]
        sum(loss_of(network, run, step)[0] for step in steps).backward()  # type: ignore[union-attr]
        own = {name: p.grad / 2 for name, p in network.named_parameters() if p.grad is not None}
        gradients.append({name: value.clone() for name, value in own.items()})
    for name, value in moved.items():
        expected = gradients[".allocation." in name][name]
        assert_close(value, expected, rtol=0, atol=1e-9, msg=f"{name}: {{}}".format)
        assert not torch.allclose(gradients[0][name], gradients[1][name]), name


def test_going_on_from_a_state_ends_the_same_to_the_bit() -> None:
    def runs() -> list[Run]:
        return [
            of_classes(seed, HELD_OUT.changed(rounds=20, entropy_weight=0.0)) for seed in (0, 1)
        ]

    assert_resumed_to_the_bit(runs)


def test_weights_of_a_run_are_those_it_has_among_others() -> None:
    together = outcomes_of([of_classes(seed, HELD_OUT) for seed in (0, 1, 2)])[1]
    alone = outcomes_of([of_classes(1, HELD_OUT)])[0]
    for name, value in alone.weights.items():
        assert_close(together.weights[name], value, rtol=0, atol=1e-5)


def test_losses_that_are_told_and_that_are_observed_differ() -> None:
    run = a_run(0, SETTINGS.changed(allocation_held_out=SHARE), build=diary)
    ended = progress_of([run])
    observed = pages_of(ended[-1].outcomes[0].weights)  # type: ignore[index]
    _, losses = trained_on_two_levels(run)
    assert float(ended[0].losses[0]) == approx(sum(losses) / 20, rel=1e-4)
    assert float(observed[:, 1].mean()) != approx(sum(losses) / 20, rel=1e-2)


def test_frozen_weights_let_the_allocation_learn() -> None:
    run = of_classes(0, HELD_OUT)
    for name, parameter in run.network.named_parameters():
        parameter.requires_grad_(".allocation." in name)
    start, end = run.network.state_dict(), outcomes_of([run])[0].weights
    moved = {name for name, value in end.items() if not torch.equal(value, start[name])}
    assert {name.rsplit(".", 1)[-1] for name in moved} == {"logits", "n_batches"}


@mark.parametrize("n_runs", [1, 2])
def test_statistics_of_batches_are_kept(n_runs: int) -> None:
    def build() -> MultiTaskNetwork:
        layer = ModularLayer([nn.Linear(4, 4) for _ in range(2)], GumbelMatrix(2, 2))
        stem = nn.Sequential(nn.Linear(N_INPUTS, 4), nn.BatchNorm1d(4))
        return MultiTaskNetwork(stem, [layer, nn.Linear(4, 1)])

    settings = SETTINGS.changed(allocation_held_out=SHARE)
    for outcome in outcomes_of([a_run(seed, settings, build=build) for seed in range(n_runs)]):
        assert outcome.failed_step is None
        assert outcome.weights["stem.1.num_batches_tracked"] == 40  # two for each of 20 steps


def test_a_balancing_weighs_both_batches_by_the_losses_of_the_first() -> None:
    changes = {"allocation_held_out": SHARE, "loss_balancing": UncertaintyWeighting(0.1)}
    settings = SETTINGS.changed(**changes)
    run = a_run(0, settings)
    assert outcomes_of([run])[0].failed_step is None
    balancing = run.settings.loss_balancing
    assert isinstance(balancing, UncertaintyWeighting)
    # A step is at most the rate, and there are 10 batches of each task: 2 calls a batch would
    # take it up to twice as far.
    assert float(balancing.log_variances.max()) <= 1.0 + 1e-6


def test_a_step_costs_about_two_passes() -> None:
    def n_operations(share: float) -> int:
        settings = SETTINGS.changed(allocation_held_out=share, trace=False)
        trainer = Trainer([of_classes(0, settings)], torch.device("cpu"))
        with Operations() as counter:  # type: ignore[no-untyped-call]
            trainer.steps(0, 2)
        return int(counter.total)

    # Less than twice: neither batch needs the gradients of all parameters.
    assert 1.3 < n_operations(SHARE) / n_operations(0.0) <= 2.0
