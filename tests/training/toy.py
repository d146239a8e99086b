"""Small tasks, networks and runs for the tests of training."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.testing import assert_allclose
from pytest import MonkeyPatch
from torch import Tensor, nn
from torch.testing import assert_close

from allotment._schema import Outcome
from allotment.allocation import Allocation, GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.modules._heads import Heads
from allotment.paper.networks import (
    ConvNormReLU,
    NormReLU,
    SameAvgPool2d,
    SameConv2d,
    SameMaxPool2d,
)
from allotment.settings import Execution, Optimization, TrainingSettings
from allotment.tasks import GeneratedDataset, Split, Task
from allotment.training import ExecutionPlan, FitResult, Progress, Run, _train, fit, train

N_INPUTS = 6
SETTINGS = TrainingSettings(
    rounds=10,
    batch_size=8,
    optimization=Optimization(learning_rate=0.01),
    execution=Execution(trace=True),  # also where there are few steps
)


class Line(GeneratedDataset):
    """Points on a line, with a little noise."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.direction = scale * torch.randn(N_INPUTS, generator=generator)

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, N_INPUTS, generator=generator)
        return x, x @ self.direction + 0.1 * torch.randn(n, generator=generator)


def lines(n_tasks: int = 2, scale: float = 1.0) -> list[Task]:
    """Returns regressions on generated examples."""
    return [Task(f"line {task}", Line(task, scale)) for task in range(n_tasks)]


def classes(*widths: int, n: int = 40, n_held_out: int = 30) -> list[Task]:
    """Returns classifications into so many classes each; they share one copy of the inputs."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(n + 2 * n_held_out, N_INPUTS, generator=generator)
    parts = torch.arange(len(x)).split([n, n_held_out, n_held_out])
    permutations = [None, torch.arange(N_INPUTS).flip(0)]
    tasks = []
    for task, width in enumerate(widths):
        directions = torch.randn(N_INPUTS, width, generator=generator)
        y = (x @ directions).argmax(dim=1)
        y[:width] = torch.arange(width)  # every class is there
        train, validation, test = (Split(x, y, rows, permutations[task % 2]) for rows in parts)
        tasks.append(Task(f"classes {task}", train, validation, test))
    return tasks


def counts_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns the loss of counts under a Poisson distribution; outputs are logarithms."""
    return (outputs.view_as(targets).exp() - outputs.view_as(targets) * targets).mean()


MIXED = {"kind": 3, "size": 1, "place": 3, "sort": 5, "count": 1}  # outputs of each


def mixed(n: int = 40, n_held_out: int = 30) -> list[Task]:
    """Returns two classifications, two regressions and counts, on one copy of the inputs."""
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(n + 2 * n_held_out, N_INPUTS, generator=generator)
    parts = torch.arange(len(x)).split([n, n_held_out, n_held_out])
    scores = x @ torch.randn(N_INPUTS, 5, generator=generator)
    targets = {
        "kind": scores[:, :3].argmax(dim=1).to(torch.uint8),
        "size": scores[:, :1].sin(),
        "place": scores[:, 1:4].cos(),
        "sort": scores.argmax(dim=1),
        "count": scores[:, 4].abs().round().to(torch.int32),
    }
    targets["kind"][:3], targets["sort"][:5] = torch.arange(3), torch.arange(5)
    losses = {"count": counts_loss}
    tasks = []
    for name, y in targets.items():
        train, validation, test = (Split(x, y, rows) for rows in parts)
        tasks.append(Task(name, train, validation, test, loss=losses.get(name)))
    return tasks


def mixed_network(dropout: float = 0.0) -> MultiTaskNetwork:
    """Returns a network for the mixed tasks."""
    heads = {name: nn.Linear(4, width) for name, width in MIXED.items()}
    layer = ModularLayer([component() for _ in range(3)], GumbelMatrix(len(MIXED), 3, p_init=0.7))
    return MultiTaskNetwork(None, [layer], heads, dropout=dropout)


class Sorted(Line):
    """Points, each with the number of the part of the line that it lies in."""

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, y = super().draw(n, generator)
        return x, torch.bucketize(y, torch.tensor([-1.0, 1.0])).to(torch.int32)


class Pairs(Line):
    """Points with two numbers each."""

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, y = super().draw(n, generator)
        return x, torch.stack([y, y.square()], dim=1)


def pictures(*widths: int, n: int = 30) -> list[Task]:
    """Returns classifications of images of 6x6 pixels; they share one copy of the images."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randint(256, (n, 1, 6, 6), generator=generator, dtype=torch.uint8)
    targets = [torch.arange(n) % width for width in widths]
    return [Task(f"pictures {t}", Split(x, y, scale=1 / 255)) for t, y in enumerate(targets)]


def picture_network(*widths: int, dropout: float = 0.0) -> MultiTaskNetwork:
    """Returns the Omniglot network in small: two layers of all its kinds of component.

    The largest pixel is left to the first layer. Further on, pixels are equal up to rounding where
    a channel is dark, and which of them gets the gradient would be a matter of chance.
    """

    def layer(stride: int) -> list[nn.Module]:
        components = [
            nn.Sequential(ConvNormReLU(8, 8, 3), ConvNormReLU(8, 8, 3, stride)),
            ConvNormReLU(8, 8, (1, 3), stride),
            SameMaxPool2d(2) if stride == 2 else ConvNormReLU(8, 8, 1),
            ConvNormReLU(8, 8, (1, 3), stride),
            SameAvgPool2d(stride),
            nn.Identity() if stride == 1 else SameConv2d(8, 8, 1, stride),
        ]
        return [ModularLayer(components, GumbelMatrix(len(widths), 6, p_init=0.7)), NormReLU(4, 8)]

    stem = ConvNormReLU(1, 8, 1)
    heads = [nn.Linear(3 * 3 * 8, width) for width in widths]
    return MultiTaskNetwork(stem, [*layer(2), *layer(1), nn.Flatten()], heads, dropout=dropout)


def component() -> nn.Module:
    """Returns two linear layers."""
    return nn.Sequential(nn.Linear(N_INPUTS, 5), nn.Tanh(), nn.Linear(5, 4))


def a_network(
    allocation: Allocation,
    heads: Heads = None,
    *,
    make: Callable[[], nn.Module] = component,
    dropout: float = 0.0,
) -> MultiTaskNetwork:
    """Returns a network of one modular layer; without heads, one number comes out."""
    components = [make() for _ in range(allocation.n_components)]
    layers: list[nn.Module] = [ModularLayer(components, allocation)]
    if heads is None:
        layers.append(nn.Linear(4, 1))
    return MultiTaskNetwork(None, layers, heads, dropout=dropout)


def a_run(
    seed: int = 0,
    settings: TrainingSettings = SETTINGS,
    *,
    tasks: Sequence[Task] | None = None,
    build: Callable[[], MultiTaskNetwork] | None = None,
) -> Run:
    """Returns a run whose starting weights follow from its seed: learnt gates and two lines."""
    torch.manual_seed(seed)
    network = a_network(GumbelMatrix(2, 3)) if build is None else build()
    return Run(network, lines() if tasks is None else tasks, seed, settings)


def progress_of(
    runs: Sequence[Run], *, device: torch.device | str = "cpu", n_last_rounds: int = 300
) -> list[Progress]:
    """Trains runs together to the end and returns everything they yield."""
    return list(train(runs, device=device, n_last_rounds=n_last_rounds))


def outcomes_of(runs: Sequence[Run], *, device: torch.device | str = "cpu") -> list[Outcome]:
    """Trains runs together and returns how each ended."""
    outcomes = progress_of(runs, device=device)[-1].outcomes
    assert outcomes is not None
    return outcomes


def resumed_outcomes(runs: Callable[[], Sequence[Run]]) -> list[Outcome]:
    """Returns how runs end that stop after their first block, and go on as new ones."""
    progress = next(train(runs()))
    assert progress.state is not None
    outcomes = list(train(runs(), resume_from=progress.state()))[-1].outcomes
    assert outcomes is not None
    return outcomes


def assert_resumed_to_the_bit(runs: Callable[[], Sequence[Run]]) -> list[Outcome]:
    """Asserts that runs which stop and go on end as if they never had; returns their end."""
    resumed = resumed_outcomes(runs)
    for whole, rest in zip(outcomes_of(runs()), resumed, strict=True):
        assert n_different(whole.weights, rest.weights) == 0
    return resumed


def planned_outcomes_of(runs: Sequence[Run]) -> tuple[ExecutionPlan, list[Outcome]]:
    """Trains runs together; returns how they were computed, and how each ended.

    To ask `plan` beforehand would have the step recorded once more.
    """
    make, made = _train._trainer, []

    def noted(*arguments: Any) -> Any:
        made.append(make(*arguments))
        return made[-1]

    with MonkeyPatch.context() as patch:
        patch.setattr(_train, "_trainer", noted)
        outcomes = outcomes_of(runs)
    (trainer,) = made
    return trainer.plan, outcomes


def assert_one_program(runs: Sequence[Run]) -> list[Outcome]:
    """Asserts that one tensor program serves all runs, recorded once; returns how each ended."""
    made, outcomes = planned_outcomes_of(runs)
    assert (made.runs.value, made.step.value) == ("vmapped", "traced"), str(made)
    return outcomes


def weights_of(run: Run, *, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Trains a run alone and returns its weights."""
    weights: dict[str, Tensor] = outcomes_of([run], device=device)[0].weights
    return weights


def n_different(a: dict[str, Tensor], b: dict[str, Tensor]) -> int:
    """Returns the number of entries in which two states differ."""
    assert a.keys() == b.keys()
    return sum(not torch.equal(a[name], b[name]) for name in a)


def assert_same_end(a: Outcome, b: Outcome, *, atol: float = 1e-9) -> None:
    """Asserts that two runs ended alike, up to rounding."""
    for name, value in b.weights.items():
        assert_close(a.weights[name], value, rtol=0, atol=atol, msg=f"{name}: {{}}".format)
    assert_allclose(a.final_loss, b.final_loss, atol=atol)
    assert_allclose(a.probabilities, b.probabilities, atol=atol)
    assert_allclose(a.matrix, b.matrix)
    assert a.best_round == b.best_round
    assert a.failed_step == b.failed_step
    for one, other in ((a.validation, b.validation), (a.test, b.test)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert_allclose(one.losses, other.losses, atol=atol)


def crops(picture: Tensor, crop: int) -> list[Tensor]:
    """Returns all crops of a picture ``[C, H, W]`` with a border, the uppermost first."""
    height, width = picture.shape[-2:]
    padded = nn.functional.pad(picture, [crop] * 4)
    offsets = range(2 * crop + 1)
    return [padded[:, i : i + height, j : j + width] for i in offsets for j in offsets]


def fitted(network: nn.Module, tasks: Sequence[Task] | None = None, **changes: Any) -> FitResult:
    """Fits a network to two lines, or to tasks of its own, and returns the result."""
    return fit(network, tasks or lines(), SETTINGS.changed(**changes))
