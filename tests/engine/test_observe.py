"""What allocations hear of the losses of batches, and when."""

from collections.abc import Callable
from dataclasses import replace
from warnings import catch_warnings, simplefilter

import torch
from pytest import approx, mark, param, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import plan
from allotment.allocation import Allocation, ScoreFunctionByExample, row
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.tasks import Split, Stream, Task
from allotment.training import Run, fit
from tests.engine.own_allocations import Rewarded
from tests.engine.test_trainer import assert_trained_plainly
from tests.training.reference import plainly_trained
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    assert_resumed_to_the_bit,
    classes,
    lines,
    outcomes_of,
    progress_of,
)

KEY = "layers.0.allocation."


class Diary(Allocation):
    """Equal shares, and a diary: each batch's task, loss and number, in their order."""

    is_binary = False
    pages: Tensor

    def __init__(self, n_tasks: int, n_components: int, n_pages: int = 60) -> None:
        super().__init__(n_tasks, n_components, counts_batches=True)
        self.register_buffer("pages", torch.full((n_pages, 3), -1.0))

    def weights(
        self, task: int | Tensor, x: Tensor | None = None, *, noise: Tensor | None = None
    ) -> Tensor:
        return self.probabilities(task)

    def matrix(self) -> Tensor:
        return self.probabilities()

    def probabilities(self, task: int | Tensor | None = None) -> Tensor:
        shares = self.pages.new_full((self.n_tasks, self.n_components), 1 / self.n_components)
        return shares if task is None else row(shares, task)

    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        assert self.n_batches is not None
        own = torch.stack([torch.as_tensor(task) + 0.0, loss, self.n_batches + 0.0])
        is_here = torch.arange(len(self.pages), device=own.device) == self.n_batches
        self.pages = torch.where(is_here.unsqueeze(1), own, self.pages)


class Sceptic(Diary):
    """The same, by an `observe` that looks at values."""

    def observe(self, task: int | Tensor, loss: Tensor) -> None:
        if float(loss) >= 0:
            super().observe(task, loss)


def diary(kind: type[Diary] = Diary) -> MultiTaskNetwork:
    return a_network(kind(2, 3))


def pages_of(weights: dict[str, Tensor]) -> Tensor:
    """Returns what was written, and asserts that pages were counted by batches, one by one."""
    pages = weights[f"{KEY}pages"]
    written = pages[pages[:, 0] >= 0]
    assert weights[f"{KEY}n_batches"] == len(written)
    assert_close(written[:, 2], torch.arange(len(written), dtype=pages.dtype))
    return written[:, :2]


def assert_told_what_a_plain_loop_finds(run: Run, weights: dict[str, Tensor]) -> None:
    _, found = plainly_trained(run)
    assert_close(pages_of(weights), torch.tensor(found), rtol=0, atol=1e-9)


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("n_runs", [1, 3])
@mark.parametrize("kind", [Diary, Sceptic])
def test_every_batch_is_told_in_order_with_its_task_and_loss(
    kind: type[Diary], n_runs: int, schedule: str
) -> None:
    settings = SETTINGS.changed(rounds=12, schedule=schedule)
    runs = [a_run(seed, settings, build=lambda: diary(kind)) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_told_what_a_plain_loop_finds(run, outcome.weights)


@mark.usefixtures("double")
@mark.parametrize("trace", [True, False])
@mark.parametrize("schedule", ["alternating", "joint"])
def test_what_was_heard_changes_the_next_batch(schedule: str, trace: bool) -> None:
    settings = SETTINGS.changed(rounds=12, schedule=schedule, trace=trace)
    runs = [a_run(seed, settings, build=lambda: a_network(Rewarded(2, 3))) for seed in range(2)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


@mark.usefixtures("double")
@mark.parametrize("trace", [True, False])
@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("make", [lambda: lines(2), lambda: classes(3, 2)], ids=["numbers", "classes"])
def test_losses_of_each_example_are_those_that_a_plain_loop_hands_in(
    make: Callable[[], list[Task]], schedule: str, trace: bool
) -> None:
    settings, tasks = SETTINGS.changed(rounds=12, schedule=schedule, trace=trace), make()

    def build() -> MultiTaskNetwork:
        heads = [nn.Linear(4, width) for width in (3, 2)] if tasks[0].is_classification else None
        return a_network(ScoreFunctionByExample(2, 3, n_features=N_INPUTS), heads)

    runs = [a_run(seed, settings, tasks=tasks, build=build) for seed in range(2)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_trained_plainly(run, outcome.weights, atol=1e-9)


def test_a_loss_that_no_single_example_has_is_told_what_it_is_asked_for() -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.squeeze(1) - targets)[targets > 0].square().mean()

    tasks = [replace(task, loss=loss) for task in lines(2)]
    network = a_network(ScoreFunctionByExample(2, 3, n_features=N_INPUTS))
    with catch_warnings(), raises(RuntimeError, match="vmap") as found:
        simplefilter("ignore")  # that a step cannot be recorded
        fit(network, tasks, SETTINGS)
    assert any(
        "where the loss of each example is asked for" in note for note in found.value.__notes__
    )


@mark.parametrize("n_runs", [1, 2])
def test_going_on_from_a_state_hears_the_rest(n_runs: int) -> None:
    def runs() -> list[Run]:
        settings = SETTINGS.changed(rounds=20)
        return [a_run(seed, settings, build=diary) for seed in range(n_runs)]

    for rest in assert_resumed_to_the_bit(runs):
        assert len(pages_of(rest.weights)) == 40


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", "joint"])
def test_the_loss_is_told_without_the_weight_of_its_task(schedule: str) -> None:
    settings = SETTINGS.changed(rounds=6, schedule=schedule, connection_weight=3.0)
    weighed = [
        replace(task, weight=weight) for task, weight in zip(lines(), (7.0, 0.1), strict=True)
    ]
    run = a_run(0, settings, tasks=weighed, build=diary)
    assert_told_what_a_plain_loop_finds(run, outcomes_of([run])[0].weights)


def of_other_heads() -> Run:
    heads = [nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 4))]
    return a_run(0, tasks=classes(3, 4), build=lambda: a_network(Diary(2, 3), heads))


@mark.usefixtures("double")
@mark.filterwarnings("ignore:Training one run at a time")
@mark.parametrize("n_runs", [1, 2])
def test_runs_whose_task_is_a_number_are_told_too(n_runs: int) -> None:
    runs = [replace(of_other_heads(), seed=seed) for seed in range(n_runs)]
    assert plan(runs).task.value == "number"
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_told_what_a_plain_loop_finds(run, outcome.weights)


def streams(n_batches: int = 5) -> list[Task]:
    generator = torch.Generator().manual_seed(0)
    tasks = []
    for name in "ab":
        x = torch.randn(8 * n_batches, N_INPUTS, generator=generator)
        batches = list(zip(x.split(8), x.sum(dim=1).split(8), strict=True))
        tasks.append(Task(name, Stream(batches)))
    return tasks


@mark.filterwarnings("ignore:Training one run at a time")
@mark.parametrize("accumulate", [1, 2])
@mark.parametrize("schedule", ["alternating", "joint"])
@mark.parametrize("n_runs", [1, 2])
def test_batches_that_are_fetched_are_told_once_for_all_their_pieces(
    n_runs: int, schedule: str, accumulate: int
) -> None:
    settings = SETTINGS.changed(schedule=schedule, accumulate=accumulate)
    runs = [a_run(seed, settings, tasks=streams(), build=diary) for seed in range(n_runs)]
    ended = progress_of(runs)
    for run, outcome in enumerate(ended[-1].outcomes or []):
        pages = pages_of(outcome.weights)
        assert len(pages) == 20
        for both in pages[:, 0].view(-1, 2):  # a round has a batch of each task
            assert sorted(both.tolist()) == [0, 1]
        assert float(pages[:, 1].mean()) == approx(ended[0].losses[run], rel=1e-5)


def sparse(share_known: float) -> list[Task]:
    """Returns two regressions on one array, the second with few labels."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(40, N_INPUTS, generator=generator)
    y = x.sum(dim=1) + 5.0
    few = torch.arange(round(40 * share_known))
    return [Task("all", Split(x, y)), Task("few", Split(x, y, few))]


@mark.parametrize("accumulate", [1, 2])
@mark.parametrize("kind", [param(Rewarded, id="vmapped"), param(None, id="by values")])
@mark.parametrize("n_runs", [1, 2])
def test_a_batch_without_labels_of_a_task_is_not_observed(
    n_runs: int, kind: Callable[..., Rewarded] | None, accumulate: int
) -> None:
    class ByValue(Rewarded):
        def observe(self, task: int | Tensor, loss: Tensor) -> None:
            assert float(loss) >= 0.0
            super().observe(task, loss)

    def build() -> MultiTaskNetwork:
        layer = ModularLayer([nn.Linear(N_INPUTS, 1) for _ in range(2)], (kind or ByValue)(2, 2))
        return MultiTaskNetwork(None, [layer], task_names=["all", "few"])

    # One label in 40, in batches of 4: nine of ten batches have none, and their loss counts 0.
    changes = {"schedule": "multi_label", "batch_size": 4, "learning_rate": 1e-9}
    settings = SETTINGS.changed(**changes, accumulate=accumulate)
    runs = [a_run(seed, settings, tasks=sparse(1 / 40), build=build) for seed in range(n_runs)]
    for outcome in outcomes_of(runs):
        # Nothing is learnt, so a task's loss stays that of its labels, well above 5.
        means = outcome.weights[f"{KEY}means"]
        assert means[0] > 5.0
        assert means[1] > 1.0  # its label comes once in the 40 examples
        assert outcome.weights[f"{KEY}n_batches"] == 20
