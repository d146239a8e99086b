"""Tasks with different targets and losses in one network."""

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from pytest import mark, param, raises, warns
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from allotment._engine._losses import StreamedLosses
from allotment._engine._trainer import Trainer
from allotment.allocation import GumbelMatrix, ScoreFunctionByExample
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.tasks import Loss, Split, Task, mean_squared_error
from allotment.training import Run, fit
from tests.engine.test_trainer import assert_trained_plainly
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    Line,
    a_network,
    a_run,
    lines,
    mixed,
    mixed_network,
    outcomes_of,
    weights_of,
)

X = torch.randn(30, N_INPUTS, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(30) % 9
NUMBERS = X[:, :1].sin()


def a_mixed_run(
    seed: int, tasks: list[Task], widths: tuple[int, ...], schedule: str = "alternating"
) -> Run:
    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(len(tasks), 3), [nn.Linear(4, width) for width in widths])

    return a_run(seed, SETTINGS.changed(schedule=schedule), tasks=tasks, build=build)


def margin(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns by how much the right one of two outputs should be larger; there is no third."""
    own = outputs.gather(1, targets.unsqueeze(1)).squeeze(1)
    return (1 - 2 * own + outputs.sum(dim=1)).clamp_min(0).mean()


def singular(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns a loss that has no value, nor a gradient, where all outputs are one half."""
    ratio: Tensor = ((outputs - targets) / (outputs - 0.5).norm()).square().mean()
    return ratio


def of_margins() -> tuple[list[Task], tuple[int, ...]]:
    """Labels of two kinds, of which one loss would look up what the other cannot have."""
    return [Task("a", (X, LABELS)), Task("b", (X, LABELS % 2), loss=margin)], (9, 2)


def of_singular_losses() -> tuple[list[Task], tuple[int, ...]]:
    return [Task("a", (X, LABELS)), Task("b", (X, NUMBERS), loss=singular)], (9, 1)


def of_rows_without_the_first() -> tuple[list[Task], tuple[int, ...]]:
    """Labels of which only some examples of a task are among its classes."""
    strange = torch.cat([torch.tensor([77]), LABELS[1:] % 3])
    return [Task("a", Split(X, strange, torch.arange(1, 30))), Task("b", (X, NUMBERS))], (3, 1)


def of_probabilities() -> tuple[list[Task], tuple[int, ...]]:
    """Classes as labels and as probabilities, both by cross-entropy."""
    shares = X[:, :2].softmax(dim=1)
    return [Task("a", (X, LABELS)), Task("b", (X, shares), loss=F.cross_entropy)], (9, 2)


def of_weighted_classes() -> tuple[list[Task], tuple[int, ...]]:
    weighted = nn.CrossEntropyLoss(torch.tensor([0.5, 2.0, 1.0]))
    return [Task("a", (X, LABELS)), Task("b", (X, LABELS % 3), loss=weighted)], (9, 3)


def of_double_targets() -> tuple[list[Task], tuple[int, ...]]:
    return [Task("a", (X, NUMBERS.float())), Task("b", (X, NUMBERS.double()))], (1, 1)


CASES = [
    param(of_margins, id="labels of two kinds"),
    param(of_singular_losses, id="a loss that is NaN for other tasks"),
    param(of_rows_without_the_first, id="labels outside of the rows"),
    param(of_probabilities, id="labels and probabilities"),
    param(of_weighted_classes, id="weighted classes"),
    param(of_double_targets, id="precisions"),
]


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("n_runs", [param(1, marks=mark.slow), 2])
@mark.parametrize("make", CASES)
def test_every_task_learns_by_its_own_loss_from_its_own_targets(
    make: Callable[[], tuple[list[Task], tuple[int, ...]]], n_runs: int, schedule: str
) -> None:
    runs = [a_mixed_run(seed, *make(), schedule) for seed in range(n_runs)]
    tasks = runs[0].tasks
    runs = [replace(run, tasks=tasks) for run in runs]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # vmapped, and traced
        outcomes = outcomes_of(runs)
    for run, outcome in zip(runs, outcomes, strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


@mark.parametrize("n_runs", [1, 2])
@mark.parametrize("schedule", ["alternating", "joint"])
def test_mixed_tasks_are_traced_as_one_program(n_runs: int, schedule: str) -> None:
    settings, tasks = SETTINGS.changed(schedule=schedule), mixed()
    runs = [a_run(seed, settings, tasks=tasks, build=mixed_network) for seed in range(n_runs)]
    trainer = Trainer(runs, torch.device("cpu"))
    assert trainer.plan.task.value == "tensor" and trainer.plan.is_vmapped is (n_runs > 1)
    assert trainer.plan.step.value == "traced"


class Watching:
    """A loss that looks at values, and remembers the targets it was given."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.seen: set[float] = set()

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        assert targets.sum() > 0
        self.seen |= set(targets.flatten().tolist())
        return self.loss(outputs, targets)


def test_a_loss_that_looks_at_values_sees_the_batches_of_its_task_alone() -> None:
    losses = [Watching(F.l1_loss), Watching(F.mse_loss)]
    targets = [torch.full((30, 1), 1.0), torch.full((30, 1), 2.0)]
    tasks = [
        Task(name, (X, y), loss=loss) for name, y, loss in zip("ab", targets, losses, strict=True)
    ]
    run = a_mixed_run(0, tasks, (1, 1))
    with warns(UserWarning, match=r"^Training without a recorded step"):
        trainer = Trainer([run], torch.device("cpu"))
    for loss in losses:
        loss.seen.clear()
    trainer.steps(0, 20)
    assert [loss.seen for loss in losses] == [{1.0}, {2.0}]


@mark.parametrize("n_runs", [1, 2])
@mark.filterwarnings("ignore:Training")
def test_a_fault_says_in_which_task(n_runs: int) -> None:
    def natural(outputs: Tensor, targets: Tensor) -> Tensor:
        return mean_squared_error(outputs, targets)  # whose widths are not checked beforehand

    tasks = [Task("a", (X, LABELS)), Task("b", (X, X[:, :3]), loss=natural)]
    runs = [a_mixed_run(seed, tasks, (9, 2)) for seed in range(n_runs)]
    with raises(ValueError, match=r"Found shapes \[8, 2\] and \[8, 3\]\.") as caught:
        outcomes_of(runs)
    assert "This is the loss of task 'b'." in caught.value.__notes__


@mark.parametrize("kind", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_labels_of_any_width_stand_beside_numbers(kind: torch.dtype) -> None:
    labels = (LABELS % 2).to(kind)
    layer = ModularLayer([nn.Linear(N_INPUTS, 4) for _ in range(3)], GumbelMatrix(2, 3))
    heads = {"kind": nn.Linear(4, 2), "size": nn.Linear(4, 1)}
    network = MultiTaskNetwork(None, [layer], heads)
    examples = {"kind": (X, labels), "size": (X, NUMBERS)}
    tasks = [Task(name, pair, validation=pair, test=pair) for name, pair in examples.items()]
    result = fit(network, tasks, SETTINGS.changed(evaluate_every=10))
    assert result.test is not None and result.test.accuracies is not None
    assert result.best_round == 10
    share = (network(X, "kind").argmax(dim=1) == labels).double().mean()
    assert_close(float(result.test.accuracies[0]), float(share), rtol=0, atol=1e-6)
    assert np.isnan(result.test.accuracies[1])


def test_a_seed_fixes_mixed_training_whatever_the_other_targets() -> None:
    """The batches of a task are drawn by its place alone, so what the other learns is no matter."""
    first, second = (
        [Task("a", (X, NUMBERS)), Task("b", (X, targets))] for targets in (NUMBERS, NUMBERS[:, 0])
    )
    networks = [a_mixed_run(0, tasks, (1, 1)) for tasks in (first, second)]
    weights = [weights_of(run) for run in networks]
    for name, value in weights[0].items():
        assert_close(weights[1][name], value, rtol=0, atol=1e-5)


def test_other_heads_take_mixed_tasks_too() -> None:
    def build() -> MultiTaskNetwork:
        heads = [nn.Sequential(nn.Tanh(), nn.Linear(4, width)) for width in (9, 1)]
        return a_network(GumbelMatrix(2, 3), heads)

    run = a_run(tasks=[Task("a", (X, LABELS)), Task("b", (X, NUMBERS))], build=build)
    assert_trained_plainly(run, weights_of(run), atol=1e-5)


def test_a_loss_of_one_spec_is_called_once_a_pass() -> None:
    calls = []

    def counted(outputs: Tensor, targets: Tensor) -> Tensor:
        calls.append(len(targets))
        return (outputs.view_as(targets) - targets).square().mean()

    settings = SETTINGS.changed(trace=False)
    tasks = [Task(task.name, task.train, loss=counted) for task in lines()]
    trainer = Trainer([a_run(settings=settings, tasks=tasks)], torch.device("cpu"))
    calls.clear()
    trainer.steps(0, 20)
    assert calls == [SETTINGS.batch_size] * 20


def test_generated_targets_may_have_a_shape_each() -> None:
    class Columns(Line):
        def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
            x, y = super().draw(n, generator)
            return x, y.unsqueeze(1)

    run = a_run(tasks=[Task("a", Line(0)), Task("b", Columns(1))])
    assert_trained_plainly(run, weights_of(run), atol=1e-5)


def spread(outputs: Tensor, targets: Tensor) -> Tensor:
    """Returns a loss that has no value for one example alone."""
    errors = outputs - targets
    return (errors - errors.mean()).square().sum() / (len(errors) - 1)


def test_a_loss_without_a_value_for_one_example_does_not_pass_for_one_without_a_label() -> None:
    layer = ModularLayer(
        [nn.Linear(N_INPUTS, 4) for _ in range(3)],
        ScoreFunctionByExample(2, 3, n_features=N_INPUTS),
    )
    network = MultiTaskNetwork(None, [layer], {name: nn.Linear(4, 1) for name in "ab"})
    tasks = [Task(name, (X, NUMBERS), loss=spread) for name in "ab"]
    with warns(UserWarning, match="The loss was not finite"):
        result = fit(network, tasks, SETTINGS.changed(rounds=10))
    assert result.failed_step is not None


def test_losses_of_streamed_examples_stay_on_their_device() -> None:
    losses, y = StreamedLosses([[Task("a", (X, NUMBERS))]], ""), torch.zeros(4, 1, device="meta")
    assert losses.of_each(y, [y], 0, 0).device == y.device
