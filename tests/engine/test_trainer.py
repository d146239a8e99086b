"""The training step: equal to a plainly written loop, and what each of its parts does."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import torch
from pytest import MonkeyPatch, mark, param
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.testing import assert_close

from allotment import _streams
from allotment._engine import Trainer
from allotment._engine._forward import clipped_per_run
from allotment._engine._optimizer import AdamSteps
from allotment._streams import stream_seed
from allotment.allocation import GumbelMatrix, NoSharing
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.settings import TrainingSettings
from allotment.tasks import Split, Task
from allotment.training import Run
from tests.training.reference import plainly_trained
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    Line,
    Pairs,
    Sorted,
    a_network,
    a_run,
    assert_one_program,
    classes,
    lines,
    mixed,
    mixed_network,
    outcomes_of,
    picture_network,
    pictures,
    weights_of,
)

EVERYTHING = SETTINGS.changed(
    rounds=16,
    allocation_learning_rate=0.05,
    weight_decay=0.3,
    clip_norm=0.5,
    budget=0.3,
    budget_weight=0.7,
    entropy_weight=0.4,
    entropy_power=0.5,
    connection_weight=0.1,
    disconnect_weight=0.2,
)


def of_lines() -> Run:
    return a_run(settings=EVERYTHING)


def plain(n_inputs: int, n_outputs: int) -> nn.Module:
    return nn.Linear(n_inputs, n_outputs)


def bent(n_inputs: int, n_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_inputs, n_outputs), nn.Tanh())


def of_classes() -> Run:
    """Returns a run with unequal heads, dropout, permutations and two layers of two kinds."""

    def build() -> MultiTaskNetwork:
        first = [plain(N_INPUTS, 5), bent(N_INPUTS, 5), plain(N_INPUTS, 5), bent(N_INPUTS, 5)]
        second = [bent(5, 4), plain(5, 4), plain(5, 4)]
        layers = [
            ModularLayer(first, GumbelMatrix(3, 4, p_init=0.7)),
            nn.LayerNorm(5),
            ModularLayer(second, GumbelMatrix(3, 3)),
        ]
        heads = {f"classes {task}": nn.Linear(4, width) for task, width in enumerate((2, 4, 3))}
        return MultiTaskNetwork(nn.Linear(N_INPUTS, N_INPUTS), layers, heads, dropout=0.3)

    return a_run(settings=EVERYTHING, tasks=classes(2, 4, 3), build=build)


class Normed(nn.Module):
    """A component that the library does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.convolution(x)).relu().flatten(1)
        return y


def of_images() -> Run:
    """Returns a run of convolutions and normalisations, with the budget over all tasks."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (30, 1, 4, 4), generator=generator, dtype=torch.uint8)
    y = torch.randint(3, (30,), generator=generator)
    tasks = [Task(name, Split(x, y, scale=1 / 255)) for name in "ab"]

    def build() -> MultiTaskNetwork:
        def known() -> nn.Module:
            return nn.Sequential(
                nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 16)
            )

        layer = ModularLayer([known(), Normed(), known(), Normed()], GumbelMatrix(2, 4))
        return MultiTaskNetwork(None, [layer], [nn.Linear(16, 3) for _ in tasks])

    return a_run(settings=EVERYTHING.changed(budget_scope="global"), tasks=tasks, build=build)


def of_pictures() -> Run:
    """Returns a run of the Omniglot network in small."""

    def build() -> MultiTaskNetwork:
        return picture_network(3, 2, dropout=0.3)

    return a_run(settings=EVERYTHING, tasks=pictures(3, 2), build=build)


def of_nothing_shared() -> Run:
    def build() -> MultiTaskNetwork:
        return a_network(NoSharing(2, 4), [nn.Linear(4, 1), nn.Linear(4, 1)])

    return a_run(settings=EVERYTHING, build=build)


def of_other_heads() -> Run:
    """Returns a run whose heads are not linear."""

    def build() -> MultiTaskNetwork:
        heads = [nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))]
        return a_network(GumbelMatrix(2, 3), heads)

    return a_run(settings=EVERYTHING, build=build)


def of_mixed() -> Run:
    """Returns a run of labels, numbers and counts, in heads of different widths."""
    return a_run(settings=EVERYTHING, tasks=mixed(), build=lambda: mixed_network(0.3))


def of_mixed_samples() -> Run:
    """Returns a run of generated examples with labels, one number or two."""

    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(3, 3), [nn.Linear(4, width) for width in (3, 1, 2)])

    tasks = [Task("a", Sorted(0), loss=F.cross_entropy), Task("b", Line(1)), Task("c", Pairs(2))]
    return a_run(settings=EVERYTHING, tasks=tasks, build=build)


RUNS = [
    param(of_lines, id="generated examples"),
    param(of_classes, id="classes"),
    param(of_mixed, id="mixed targets"),
    param(of_mixed_samples, id="mixed generated examples"),
    param(of_images, id="images"),
    param(of_pictures, id="convolutions with norms"),
    param(of_nothing_shared, id="nothing shared"),
    param(of_other_heads, id="other heads"),
]


def nightly(cases: Sequence[Any]) -> list[Any]:
    """Returns cases that something like them is tested for every day."""
    return [param(*case.values, id=case.id, marks=mark.slow) for case in cases]


def assert_trained_plainly(run: Run, weights: dict[str, Tensor], *, atol: float) -> None:
    """Asserts that a plain loop, from the same start, leads to the same weights."""
    expected = plainly_trained(run)[0].state_dict()
    assert weights.keys() == expected.keys()
    for name, value in expected.items():
        if not name.endswith("n_batches"):
            message = f"{name}: {{}}".format
            assert_close(weights[name], value, rtol=0, atol=atol, msg=message)


def assert_one_program_of_plain_loops(runs: Sequence[Run]) -> None:
    """Asserts that runs are vmapped and traced, and that each ends as a plainly written loop."""
    for run, outcome in zip(runs, assert_one_program(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


@mark.usefixtures("double")
@mark.parametrize("make", [*RUNS[:5], *nightly(RUNS[5:6]), *RUNS[6:]])
def test_training_equals_a_plainly_written_loop(
    make: Callable[[], Run], device: torch.device
) -> None:
    assert_trained_plainly(make(), weights_of(make(), device=device), atol=1e-9)


@mark.usefixtures("double")
@mark.parametrize("make", RUNS[:7])
def test_runs_that_train_together_equal_plainly_written_loops(
    make: Callable[[], Run], device: torch.device
) -> None:
    run = make()
    other = replace(make(), seed=5)
    for each, outcome in zip((run, other), outcomes_of([run, other], device=device), strict=True):
        assert_trained_plainly(each, outcome.weights, atol=1e-9)


@mark.parametrize("make", [RUNS[0], *nightly(RUNS[1:3])])
def test_single_precision_stays_near_the_plain_loop(make: Callable[[], Run]) -> None:
    assert_trained_plainly(make(), weights_of(make()), atol=1e-5)


@mark.usefixtures("double")
def test_the_logits_of_idle_tasks_keep_moving() -> None:
    # A round of two tasks is two steps, and each task is idle in one of them. By hand, Adam with
    # (0.9, 0.999) takes a logit the rate far at its first gradient; by `idle` times the rate
    # when a zero follows; and by `late` times the rate when the zero came first.
    idle = (0.09 / 0.19) / (0.000999 / 0.001999) ** 0.5
    late = (0.1 / 0.19) / (0.001 / 0.001999) ** 0.5
    rate = 0.01
    run = a_run(settings=SETTINGS.changed(rounds=1, allocation_learning_rate=rate))
    start = run.network.state_dict()["layers.0.allocation.logits"]
    moved = (weights_of(run)["layers.0.allocation.logits"] - start).abs() / rate  # [T, C, 2]
    of_first, of_second = sorted((row[row > 0] for row in moved), key=lambda row: -row.mean())
    assert len(of_first) and len(of_second)
    assert_close(of_first, torch.full_like(of_first, 1 + idle), rtol=0.01, atol=0)
    assert_close(of_second, torch.full_like(of_second, late), rtol=0.01, atol=0)


def test_each_run_is_clipped_to_its_own_norm() -> None:
    gradients = [torch.randn(3, 20), torch.randn(3, 7)]
    gradients[0][1] *= 1e6
    gradients[1][2] *= 1e-3
    gradients[0][2] *= 1e-3
    clipped = clipped_per_run(gradients, 2.0)
    for run in range(3):
        parameters = [nn.Parameter(torch.zeros_like(part[run])) for part in gradients]
        for parameter, part in zip(parameters, gradients, strict=True):
            parameter.grad = part[run].clone()
        clip_grad_norm_(parameters, 2.0)
        for parameter, part in zip(parameters, clipped, strict=True):
            assert_close(part[run], parameter.grad)
    assert_close(clipped[0][2], gradients[0][2])  # a short gradient stays as it is


def test_without_a_norm_nothing_is_clipped() -> None:
    gradients = [1e6 * torch.randn(3, 20)]
    assert clipped_per_run(gradients, None)[0] is gradients[0]


@mark.usefixtures("double")
def test_an_exploding_run_leaves_the_steps_of_another_as_they_were() -> None:
    settings = SETTINGS.changed(clip_norm=1.0)
    wild = a_run(0, settings, tasks=lines(scale=1e8))
    weights = outcomes_of([wild, a_run(1, settings)])[1].weights
    alone = weights_of(a_run(1, settings))
    for name, value in alone.items():
        assert_close(weights[name], value, rtol=0, atol=1e-10)


def test_settings_of_the_optimizer_are_adams_own() -> None:
    steps = Trainer([a_run(settings=EVERYTHING)], torch.device("cpu"))._steps
    assert isinstance(steps, AdamSteps)
    for group in steps._adam.param_groups:
        assert group["betas"] == (0.9, 0.999)
        assert group["eps"] == 1e-8


def test_no_step_keeps_a_tensor_of_its_own(monkeypatch: MonkeyPatch) -> None:
    trainer = Trainer([a_run()], torch.device("cpu"))
    take, alive = trainer._step, WeakSet[Tensor]()
    n_alive = []

    def step(block: Any, index: int | Tensor) -> Tensor:
        losses = take(block, index)
        alive.add(losses)
        n_alive.append(len(alive))
        return losses

    monkeypatch.setattr(trainer, "_step", step)
    trainer.steps(0, 20)
    assert len(n_alive) == 20
    assert max(n_alive) <= 2  # that of a step, and perhaps the one before it


def test_what_modules_draw_themselves_is_drawn_for_nothing_else(monkeypatch: MonkeyPatch) -> None:
    seeded: list[tuple[int, str, int]] = []

    def seed_of(seed: int, use: str, block: int = 0) -> int:
        seeded.append((seed, use, block))
        return stream_seed(seed, use, block)

    monkeypatch.setattr(_streams, "stream_seed", seed_of)
    trainer = Trainer([a_run(settings=EVERYTHING)], torch.device("cpu"))
    take = trainer._step
    of_modules: list[int] = []

    def step(block: Any, index: int | Tensor) -> Tensor:
        of_modules.append(torch.initial_seed())
        return take(block, index)

    monkeypatch.setattr(trainer, "_step", step)
    for block in range(2):
        trainer.steps(block, 20)
    assert len(set(of_modules)) == 2  # one for each block
    others = [stream_seed(*each) for each in seeded if each[1] != "modules"]
    assert others and not set(of_modules) & set(others)


@mark.parametrize("rounds", [1, 9, 10, 11])
def test_a_run_takes_one_step_for_each_task_and_round(rounds: int) -> None:
    settings = TrainingSettings(rounds=rounds, batch_size=4)
    weights = weights_of(a_run(settings=settings))
    assert weights["layers.0.allocation.n_batches"] == 2 * rounds
