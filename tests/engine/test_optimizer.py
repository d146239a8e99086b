"""Steps of an optimizer of one's own: those that it takes in a plainly written loop."""

from collections.abc import Callable
from typing import Any

import torch
from pytest import mark, param, raises
from torch import nn
from torch.testing import assert_close

from allotment._engine import Trainer
from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import MultiTaskNetwork
from allotment.training import Run, TrainingState, train
from tests.engine.test_trainer import assert_trained_plainly
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    classes,
    n_different,
    outcomes_of,
    pictures,
)

Groups = list[dict[str, Any]]


class HandMade(torch.optim.Optimizer):
    """Remembers numbers of Python's, by parameter and by group."""

    def __init__(self, groups: Groups) -> None:
        super().__init__(groups, {"lr": 0.1, "weight_decay": 0.0, "seen": 0.1})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["seen"] = group["seen"] * 1.1
            for parameter in group["params"]:
                state = self.state[parameter]
                state["n_steps"] = state.get("n_steps", 0) + 1
                state["share"] = state.get("share", 0.3) / 1.7
                factor = group["lr"] * (1 + group["seen"] + state["share"]) / state["n_steps"]
                parameter -= factor * parameter.grad


def momentum(groups: Groups) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, momentum=0.9, nesterov=True)


OPTIMIZERS = [
    param(torch.optim.SGD, id="SGD"),
    param(momentum, id="SGD with momentum"),
    param(torch.optim.AdamW, id="AdamW"),
    param(torch.optim.Adagrad, id="Adagrad"),
    param(torch.optim.RMSprop, id="RMSprop"),
    param(torch.optim.Adafactor, id="Adafactor, of whole parameters"),
    param(HandMade, id="one of one's own"),
]


def of_lines(seed: int, **changes: Any) -> Run:
    changed = {"rounds": 20, "weight_decay": 0.1, "allocation_learning_rate": 0.05} | changes
    return a_run(seed, SETTINGS.changed(**changed))


def of_classes(seed: int, **changes: Any) -> Run:
    """Returns runs with heads of different widths, which lie padded in one table."""

    def build() -> MultiTaskNetwork:
        heads = [nn.Linear(4, 2), nn.Linear(4, 4)]
        return a_network(GumbelMatrix(2, 3), heads, dropout=0.3)

    settings = SETTINGS.changed(**{"rounds": 20, "weight_decay": 0.1, "clip_norm": 0.5} | changes)
    return a_run(seed, settings, tasks=classes(2, 4), build=build)


@mark.usefixtures("double")
@mark.parametrize(("make", "n_runs"), [param(of_lines, 1, marks=mark.slow), (of_classes, 3)])
@mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_are_those_of_a_plainly_written_loop(
    optimizer: Any, make: Callable[..., Run], n_runs: int
) -> None:
    runs = [make(seed, optimizer=optimizer) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


def of_matrices(seed: int, **changes: Any) -> Run:
    """Returns runs of which every parameter is a matrix."""

    def make() -> nn.Module:
        first, second = nn.Linear(N_INPUTS, 5, bias=False), nn.Linear(5, 4, bias=False)
        return nn.Sequential(first, nn.Tanh(), second)

    def build() -> MultiTaskNetwork:
        heads = [nn.Linear(4, 1, bias=False) for _ in range(2)]
        return a_network(SharedBottom(2, 3), heads, make=make)

    return a_run(seed, SETTINGS.changed(rounds=20, **changes), build=build)


@mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
@mark.parametrize("n_runs", [1, 2])
def test_muon_sees_whole_matrices(n_runs: int) -> None:
    runs = [of_matrices(seed, optimizer=torch.optim.Muon) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        # Within rounding: it computes in 16 bits.
        assert_trained_plainly(run, outcome.weights, atol=2e-3)


@mark.usefixtures("double")
def test_kernels_that_lie_with_their_channels_last_are_stepped_in_their_shape() -> None:
    def build() -> MultiTaskNetwork:
        def kernels() -> nn.Module:
            pair = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 2, 3)
            return nn.Sequential(*pair, nn.Flatten(), nn.Linear(32, 4))

        heads = [nn.Linear(4, 3), nn.Linear(4, 2)]
        return a_network(GumbelMatrix(2, 2), heads, make=kernels)

    settings = SETTINGS.changed(optimizer=torch.optim.Adafactor)
    run = a_run(settings=settings, tasks=pictures(3, 2), build=build)
    assert_trained_plainly(run, outcomes_of([run])[0].weights, atol=1e-9)


@mark.usefixtures("double")
@mark.parametrize("optimizer", [momentum, torch.optim.Adafactor])
def test_a_joint_step_is_one_step(optimizer: Any) -> None:
    runs = [of_classes(seed, optimizer=optimizer, schedule="joint") for seed in range(2)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


def test_an_optimizer_is_given_rates_and_decay_by_group() -> None:
    seen: list[Groups] = []

    def noting(groups: Groups) -> torch.optim.Optimizer:
        seen.append(groups)
        return torch.optim.SGD(groups)

    run = of_classes(0, optimizer=noting, learning_rate=0.3, allocation_learning_rate=0.2)
    Trainer([run], torch.device("cpu"))
    found = {(group["lr"], group["weight_decay"]): group["params"] for group in seen[0]}
    assert found.keys() == {(0.3, 0.1), (0.3, 0.0), (0.2, 0.0)}
    assert [list(p.shape) for p in found[0.2, 0.0]] == [[2, 3, 2]]  # the logits
    assert sum(len(group) for group in found.values()) == len(list(run.network.parameters()))


@mark.slow
@mark.parametrize("optimizer", OPTIMIZERS)
def test_going_on_from_a_state_ends_the_same_to_the_bit(optimizer: Any) -> None:
    def runs() -> list[Run]:
        return [of_classes(seed, optimizer=optimizer, rounds=30) for seed in range(2)]

    told = list(train(runs()))
    state = state_of(runs())
    resumed = list(train(runs(), resume_from=state))
    assert told[-1].outcomes is not None and resumed[-1].outcomes is not None
    for whole, rest in zip(told[-1].outcomes, resumed[-1].outcomes, strict=True):
        assert n_different(whole.weights, rest.weights) == 0


def state_of(runs: list[Run]) -> TrainingState:
    """Returns the state after ten rounds."""
    progress = next(train(runs))
    assert progress.state is not None
    return progress.state()


def test_a_state_is_a_copy_that_later_steps_leave_alone() -> None:
    training = train([of_lines(0, optimizer=momentum, rounds=30)])
    progress = next(training)
    assert progress.state is not None
    state = progress.state()
    before = {name: tensor.clone() for name, tensor in state.tensors.items()}
    assert any(name.startswith("optimizer/") for name in before)
    list(training)
    assert n_different(state.tensors, before) == 0


def test_an_average_follows_the_steps_of_any_optimizer() -> None:
    averaged = outcomes_of([of_lines(0, optimizer=momentum, ema_decay=0.9)])[0]
    plain = outcomes_of([of_lines(0, optimizer=momentum)])[0]
    assert averaged.final_loss == plain.final_loss
    assert n_different(averaged.weights, plain.weights) > 3


def nothing(groups: Groups) -> Any:
    return None


def a_closure(groups: Groups) -> torch.optim.Optimizer:
    return torch.optim.LBFGS([p for group in groups for p in group["params"]])


@mark.parametrize(
    ("optimizer", "error", "message"),
    [
        (a_closure, ValueError, r"take a step from one gradient\. Found LBFGS\."),
        (torch.optim.LBFGS, ValueError, r"make an optimizer .* groups\. Found .*: LBFGS doesn't"),
        (nothing, TypeError, r"return an optimizer of torch's\. Found NoneType\."),
    ],
)
def test_what_is_no_optimizer_of_steps_is_refused_in_a_sentence(
    optimizer: Any, error: type[Exception], message: str
) -> None:
    with raises(error, match=rf"^`optimizer` should {message}"):
        outcomes_of([of_lines(0, optimizer=optimizer)])


def test_views_are_stepped_in_place() -> None:
    trainer = Trainer([of_lines(0, optimizer=momentum)], torch.device("cpu"))
    flat = trainer.parameters.flat["weights"]
    address, before = flat.data_ptr(), flat.detach().clone()
    trainer.steps(0, 20)
    assert flat.data_ptr() == address
    assert not torch.equal(flat, before)
    assert_close(float(trainer.parameters.n_batches), 20.0)


@mark.parametrize(
    ("schedule", "own"),
    [
        ("cosine", None),
        ("constant", momentum),
        param("constant", None, marks=mark.slow),
        param("cosine", momentum, marks=mark.slow),
    ],
)
def test_runs_with_different_rates_end_as_they_would_alone(
    schedule: str, own: Callable[[Groups], torch.optim.Optimizer] | None
) -> None:
    changes = [
        {"learning_rate": 0.01, "allocation_learning_rate": 0.1},
        {"learning_rate": 0.03, "allocation_learning_rate": 0.02},
        {"learning_rate": 0.002},
    ]
    chosen = [
        SETTINGS.changed(rounds=20, lr_schedule=schedule, optimizer=own, **change)
        for change in changes
    ]
    runs = [a_run(seed=4, settings=settings) for settings in chosen]
    together = outcomes_of(runs)
    for run, outcome in zip(runs, together, strict=True):
        (alone,) = outcomes_of([run])
        for name, value in alone.weights.items():
            assert_close(outcome.weights[name], value, rtol=1e-4, atol=1e-6)
