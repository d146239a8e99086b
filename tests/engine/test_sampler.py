"""The order of tasks and examples, and the noise: what a run draws and when."""

from itertools import pairwise

import torch
from pytest import fixture, mark
from torch import Tensor, nn
from torch.testing import assert_close

from allotment._engine._dataset import DeviceDataset
from allotment._engine._sampler import BatchSampler
from allotment.allocation import Allocation, GumbelMatrix, NoSharing, SharedBottom
from allotment.modules import MultiTaskNetwork
from allotment.settings import TrainingSettings
from allotment.tasks import Task
from allotment.training import Run
from tests.training.reference import steps_of
from tests.training.toy import N_INPUTS, a_network, a_run, classes, weights_of

PER_TASK = 1_000  # a target names its task and its example: task * PER_TASK + example


class Seen:
    """A loss that remembers the targets it was given, batch after batch."""

    def __init__(self) -> None:
        self.targets: list[Tensor] = []

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.targets.append(targets.detach().clone())
        return (outputs.view_as(targets) - targets).square().mean()

    @property
    def tasks(self) -> list[int]:
        """The task of each batch, as far as batches are of one task."""
        tasks = [(batch / PER_TASK).long().unique() for batch in self.targets]
        assert all(len(found) == 1 for found in tasks)
        return [int(found) for found in tasks]

    def examples(self, task: int) -> list[int]:
        """The examples of one task in the order in which they came."""
        batches = [b for t, b in zip(self.tasks, self.targets, strict=True) if t == task]
        return [int(number) - task * PER_TASK for number in torch.cat(batches)]


@fixture
def seen() -> Seen:
    return Seen()


def trained(
    seen: Seen,
    *,
    allocation: Allocation | None = None,
    n_tasks: int = 3,
    n_examples: int = 7,
    rounds: int = 30,
    batch_size: int = 3,
    seed: int = 0,
) -> Seen:
    """Trains one run, every step of which the loss sees."""
    x = torch.zeros(n_examples, N_INPUTS)
    numbers = torch.arange(n_examples).float().unsqueeze(1)  # one for each output
    tasks = [Task(str(t), (x, numbers + PER_TASK * t), loss=seen) for t in range(n_tasks)]
    network = a_network(allocation or SharedBottom(n_tasks, 2))
    settings = TrainingSettings(rounds=rounds, batch_size=batch_size).changed(trace=False)
    weights_of(Run(network, tasks, seed, settings))
    del seen.targets[0]  # before the first step a pass is tried
    return seen


def test_each_round_visits_every_task_once(seen: Seen) -> None:
    tasks = trained(seen, n_tasks=4, rounds=25).tasks
    rounds = [tasks[first : first + 4] for first in range(0, len(tasks), 4)]
    assert len(rounds) == 25
    assert all(sorted(visited) == [0, 1, 2, 3] for visited in rounds)


def test_a_round_may_begin_with_any_task(seen: Seen) -> None:
    n_rounds, n_tasks = 300, 3
    tasks = trained(seen, n_tasks=n_tasks, rounds=n_rounds, batch_size=1).tasks
    for task in range(n_tasks):
        share = tasks[::n_tasks].count(task) / n_rounds
        assert abs(share - 1 / 3) < 4 * (1 / 3 * 2 / 3 / n_rounds) ** 0.5


@mark.parametrize(
    ("n_examples", "batch_size"),
    [(7, 3), (7, 7), (7, 8), (3, 10), (50, 4), (1, 2)],
)
def test_every_example_is_seen_once_before_any_is_seen_again(
    n_examples: int, batch_size: int
) -> None:
    seen = trained(Seen(), n_examples=n_examples, batch_size=batch_size, rounds=30)
    for task in range(3):
        examples = seen.examples(task)
        assert len(examples) == 30 * batch_size
        epochs = [examples[i : i + n_examples] for i in range(0, len(examples), n_examples)]
        for epoch in epochs:
            assert len(set(epoch)) == len(epoch)
        assert all(sorted(epoch) == list(range(n_examples)) for epoch in epochs[:-1])


def test_every_epoch_has_an_order_of_its_own(seen: Seen) -> None:
    examples = trained(seen, n_examples=30, batch_size=30, rounds=5).examples(0)
    epochs = [examples[i : i + 30] for i in range(0, len(examples), 30)]
    assert all(a != b for a, b in pairwise(epochs))


def test_tasks_on_the_same_examples_see_them_in_orders_of_their_own(seen: Seen) -> None:
    trained(seen, n_examples=30)
    assert seen.examples(0)[:30] != seen.examples(1)[:30]


@mark.parametrize(
    "other",
    [GumbelMatrix(3, 2), GumbelMatrix(3, 5), NoSharing(3, 3)],
    ids=["learnt", "learnt, of more components", "nothing shared"],
)
def test_methods_with_one_seed_see_the_same_data(other: Allocation) -> None:
    first, second = trained(Seen()), trained(Seen(), allocation=other)
    assert_close(first.targets, second.targets, rtol=0, atol=0)


def test_orders_of_examples_are_made_once_for_runs_with_one_seed() -> None:
    tasks = [classes(2, 3, n=n) for n in (40, 25, 40)]
    runs = [a_run(seed, tasks=own) for seed, own in ((0, tasks[0]), (0, tasks[1]), (0, tasks[2]))]
    splits = [task.train for own in tasks for task in own]
    sampler = BatchSampler(runs, DeviceDataset(splits, torch.device("cpu")), {})
    for number in (0, 1, 7):
        together = sampler.make(number).rows
        assert together is not None
        for r, run in enumerate(runs):
            alone = BatchSampler([run], DeviceDataset(splits, torch.device("cpu")), {})
            found = alone.make(number).rows
            assert found is not None and torch.equal(together[:, r], found[:, 0])
    assert len(sampler._epochs) == 4  # two tasks of two sizes


def test_another_seed_means_another_order() -> None:
    first, second = trained(Seen(), seed=0), trained(Seen(), seed=1)
    assert first.tasks != second.tasks
    assert first.examples(0) != second.examples(0)


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    short, long = trained(Seen(), rounds=13), trained(Seen(), rounds=25)
    assert_close(short.targets, long.targets[: len(short.targets)], rtol=0, atol=0)


def test_noise_is_uniform_and_new_at_every_step() -> None:
    settings = TrainingSettings(rounds=50, batch_size=10)
    tasks = classes(3, 3)

    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 20), [nn.Linear(4, 3), nn.Linear(4, 3)], dropout=0.5)

    gates, dropout = [], []
    for step in steps_of(a_run(settings=settings, tasks=tasks, build=build)):
        assert step.noise.gates is not None and step.noise.dropout is not None
        gates.append(step.noise.gates.clone())
        dropout.append(step.noise.dropout.clone())
    for noise in (torch.stack(gates), torch.stack(dropout)):
        n = noise.numel()
        assert noise.min() > 0.0 and noise.max() < 1.0
        assert abs(noise.mean().item() - 0.5) < 4 * (1 / 12 / n) ** 0.5
        assert abs(noise.var().item() - 1 / 12) < 4 * (1 / 180 / n) ** 0.5
        assert len(noise.flatten(1).unique(dim=0)) == len(gates)


def test_each_use_of_noise_has_draws_of_its_own() -> None:
    # Streams that were the same would begin with the same numbers, whatever their shapes are.
    drawn = BatchSampler([a_run(0)], None, {"gates": 3, "examples": 2, "dropout": 4}).make(0).noise
    firsts = [float(noise.flatten()[0]) for noise in drawn.values()]
    assert len(set(firsts)) == 3
