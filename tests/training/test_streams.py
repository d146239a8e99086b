"""Examples that are fetched batch by batch: datasets, loaders, iterables, functions."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from pytest import mark, param, raises, warns
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.tasks import Split, Stream, Task
from allotment.training import Run, fit, plan, train
from tests.engine.own_allocations import ToldEach
from tests.training.toy import N_INPUTS, SETTINGS, a_network, classes, n_different

Batches = list[tuple[Tensor, Tensor]]


class Rows(Dataset[tuple[Tensor, Tensor]]):
    """A map-style dataset of a task's examples, which counts how often it is asked."""

    def __init__(self, task: Task, split: str = "train") -> None:
        held = task.held_out(split)
        assert isinstance(held, Split)
        self.x, self.y = held.examples()
        self.n_asked = 0

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, position: int) -> tuple[Tensor, Tensor]:
        self.n_asked += 1
        return self.x[position], self.y[position]


class Endless(IterableDataset[tuple[Tensor, Tensor]]):
    """Examples one after another, of unknown number."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter([self.rows[position] for position in range(len(self.rows))])


def a_classifier() -> MultiTaskNetwork:
    torch.manual_seed(0)
    return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 3), nn.Linear(4, 4)])


def batches_of(task: Task, size: int = 8) -> Batches:
    rows = Rows(task)
    return list(zip(rows.x.split(size), rows.y.split(size), strict=True))


def loaders() -> dict[str, Callable[[Task], Any]]:
    return {
        "loader": lambda task: DataLoader(Rows(task), batch_size=8, shuffle=True),
        "iterable dataset": lambda task: DataLoader(Endless(Rows(task)), batch_size=8),
        "list in a stream": lambda task: Stream(batches_of(task)),
        "function": lambda task: lambda: iter(batches_of(task)),
    }


@mark.parametrize("schedule", ["alternating", "joint"])
def test_a_dataset_trains_as_its_arrays_do(schedule: str) -> None:
    settings = SETTINGS.changed(schedule=schedule, rounds=20)
    arrays = a_classifier()
    fit(arrays, classes(3, 4), settings)
    tasks = [Task(task.name, Rows(task)) for task in classes(3, 4)]
    streamed = a_classifier()
    fit(streamed, tasks, settings)
    for name, expected in arrays.state_dict().items():
        assert_close(streamed.state_dict()[name], expected, rtol=1e-4, atol=1e-5, msg=name)


@mark.parametrize("kind", loaders())
def test_allocations_may_hear_the_loss_of_each_example(kind: str) -> None:
    told = ToldEach(2, 3)
    tasks = [Task(task.name, loaders()[kind](task)) for task in classes(3, 4)]
    fit(a_network(told, [nn.Linear(4, 3), nn.Linear(4, 4)]), tasks, SETTINGS)
    assert len(told.losses) == 2 * SETTINGS.rounds
    for each, loss in zip(told.each[-len(told.losses) :], told.losses, strict=True):
        assert each.shape == (SETTINGS.batch_size,)
        assert_close(each.mean(), loss)


@mark.parametrize("shape", [(8,), (8, 5)], ids=["a label each", "several"])
def test_an_example_without_a_label_has_no_loss_for_allocations(shape: tuple[int, ...]) -> None:
    told, x, y = ToldEach(2, 3), torch.randn(8, N_INPUTS), torch.zeros(shape, dtype=torch.int64)
    y[2] = -100
    tasks = [Task(name, Stream([(x, y)]), n_outputs=3) for name in "ab"]
    heads = [nn.Sequential(nn.Linear(4, y[0].numel() * 3), nn.Unflatten(1, (3, *shape[1:])))] * 2
    fit(a_network(told, heads), tasks, SETTINGS)
    for each, loss in zip(told.each[-len(told.losses) :], told.losses, strict=True):
        assert each.isnan().nonzero().tolist() == [[2]]
        assert_close(each.nanmean(), loss)


def test_a_dataset_is_asked_anew_in_every_epoch() -> None:
    tasks = [Task(task.name, Rows(task)) for task in classes(3, 4)]
    before = [task.train.dataset.n_asked for task in tasks]
    fit(a_classifier(), tasks, SETTINGS)  # 10 rounds of 8 examples
    for task, n in zip(tasks, before, strict=True):
        assert task.train.dataset.n_asked - n >= 80


@mark.parametrize("kind", loaders())
def test_batches_of_any_source_train_a_network(kind: str) -> None:
    tasks = [Task(task.name, loaders()[kind](task)) for task in classes(3, 4)]
    result = fit(a_classifier(), tasks, SETTINGS.changed(rounds=100, learning_rate=0.03))
    assert result.history[-1].losses.mean() < 0.7 * result.history[0].losses.mean()


def test_the_plan_says_that_batches_are_fetched() -> None:
    tasks = [Task(task.name, DataLoader(Rows(task), batch_size=8)) for task in classes(3, 4)]
    told = str(plan([Run(a_classifier(), tasks)]))
    assert "the examples of task 'classes 0' are no pair of arrays" in told
    assert "eager" in told


def test_arrays_and_loaders_train_together() -> None:
    first, second = classes(3, 4)
    tasks = [first, Task(second.name, DataLoader(Rows(second), batch_size=8))]
    assert fit(a_classifier(), tasks, SETTINGS).failed_step is None


def test_an_epoch_of_a_loader_is_read_to_its_end() -> None:
    seen: list[Tensor] = []

    def counted(task: Task) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in batches_of(task):
            seen.append(x)
            yield x, y

    first, second = classes(3, 4)
    tasks = [Task(first.name, lambda: counted(first)), second]
    fit(a_classifier(), tasks, SETTINGS)  # 10 rounds: two epochs of five batches, and a trial
    whole = torch.cat(seen)
    epoch = torch.cat([x for x, _ in batches_of(first)])
    assert_close(whole[-40:], epoch)


def test_an_iterator_that_ends_is_told() -> None:
    first, second = classes(3, 4)
    tasks = [Task(first.name, iter(batches_of(first))), second]
    with raises(ValueError, match=r"Task 'classes 0': its batches should be given again when they"):
        fit(a_classifier(), tasks, SETTINGS)


def test_an_iterator_that_lasts_loses_no_batch() -> None:
    first, second = classes(3, 4)
    again = [Task(first.name, lambda: iter(batches_of(first))), second]
    once = [Task(first.name, iter(2 * batches_of(first))), second]
    networks = [a_classifier(), a_classifier()]
    for network, tasks in zip(networks, (again, once), strict=True):
        fit(network, tasks, SETTINGS)
    for name, expected in networks[0].state_dict().items():
        assert_close(networks[1].state_dict()[name], expected, rtol=0, atol=0)


@mark.parametrize(
    ("batch", "found"),
    [
        param(torch.zeros(2, 6), "a Tensor", id="no targets"),
        param((torch.zeros(2, 6),) * 3, "a tuple of Tensor", id="three"),
        param({"x": torch.zeros(2, 6)}, "a dict", id="no labels"),
    ],
)
def test_a_batch_is_a_pair(batch: Any, found: str) -> None:
    first, second = classes(3, 4)
    with raises(ValueError, match=rf"A batch should be a pair of inputs and .* Found {found}\."):
        fit(a_classifier(), [Task(first.name, lambda: iter([batch])), second], SETTINGS)


def test_a_stream_without_batches_is_refused() -> None:
    first, second = classes(3, 4)
    with raises(ValueError, match=r"should give at least one batch\. Found none"):
        fit(a_classifier(), [Task(first.name, lambda: iter([])), second], SETTINGS)


def test_runs_that_stream_train_one_after_another() -> None:
    tasks = [Task(task.name, Rows(task)) for task in classes(3, 4)]
    runs = [Run(a_classifier(), tasks, seed, SETTINGS) for seed in (0, 1)]
    with warns(UserWarning, match="Training one run at a time: batches are fetched one by one"):
        *_, last = train(runs)
    assert last.outcomes is not None
    alone = a_classifier()
    fit(alone, tasks, SETTINGS, seed=1)
    for name, value in last.outcomes[1].weights.items():
        assert_close(value, alone.state_dict()[name], rtol=0, atol=0)


@mark.parametrize("streams", [False, True])
def test_pieces_of_a_batch_are_the_batch(streams: bool) -> None:
    networks = [a_classifier(), a_classifier()]
    for network, n in zip(networks, (1, 4), strict=True):
        tasks = classes(3, 4)
        settings = SETTINGS.changed(accumulate=n)
        if streams:
            size = 8 // n
            tasks = [Task(t.name, Stream(batches_of(t, size))) for t in tasks]
        fit(network, tasks, settings)
    for name, expected in networks[0].state_dict().items():
        assert_close(networks[1].state_dict()[name], expected, rtol=1e-4, atol=1e-5, msg=name)


def test_inputs_may_be_whole_numbers_and_lengths_may_differ() -> None:
    class Mean(nn.Module):
        """Embeds tokens and takes the mean over those that are there."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 6)

        def forward(self, tokens: Tensor) -> Tensor:
            known = (tokens > 0).unsqueeze(-1)
            mean: Tensor = (self.table(tokens) * known).sum(1) / known.sum(1)
            return mean

    def batches(which: int) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(which)
        for length in (3, 5, 9):
            tokens = torch.randint(1, 20, (8, length), generator=generator)
            tokens[::2, length // 2 :] = 0
            yield tokens, (tokens == which + 1).any(dim=1).long()

    torch.manual_seed(0)
    layer = ModularLayer([nn.Linear(6, 4), nn.Linear(6, 4)], GumbelMatrix(2, 2))
    heads = {"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)}
    network = MultiTaskNetwork(Mean(), [layer], heads)
    tasks = [
        Task(name, lambda n=n: batches(n), validation=lambda n=n: batches(n))
        for n, name in enumerate("ab")
    ]
    result = fit(network, tasks, SETTINGS.changed(rounds=150, learning_rate=0.05))
    assert result.validation is not None and result.validation.accuracies is not None
    assert result.validation.accuracies.min() > 0.9


def test_a_tensor_dataset_lies_on_the_device() -> None:
    task = Task("a", TensorDataset(torch.randn(9, N_INPUTS), torch.randn(9)))
    assert isinstance(task.train, Split)


def test_arrays_may_be_checked_on_a_loader() -> None:
    tasks = [
        replace(task, validation=DataLoader(Rows(task, "validation"), batch_size=7))
        for task in classes(3, 4)
    ]
    settings = SETTINGS.changed(rounds=10, evaluate_every=10)
    found = fit(a_classifier(), tasks, settings).validation
    wanted = fit(a_classifier(), classes(3, 4), settings).validation
    assert found is not None and wanted is not None
    assert_close(found.losses, wanted.losses, rtol=1e-5, atol=1e-6)


def test_what_is_gone_through_again_should_not_end() -> None:
    once = [replace(task, validation=iter(batches_of(task))) for task in classes(3, 4)]
    with raises(ValueError, match="validation: batches should be such as can be given again"):
        fit(a_classifier(), once, SETTINGS)
    streams = [replace(task, train=iter(batches_of(task))) for task in classes(3, 4)]
    with raises(ValueError, match="of several runs: batches should be such as can be given again"):
        train([Run(a_classifier(), streams, seed, SETTINGS) for seed in range(2)])


class _Labelled(Rows):
    """Examples whose targets are dicts."""

    def __getitem__(self, position: int) -> Any:
        x, y = super().__getitem__(position)
        return x, {"label": y}


def test_targets_of_any_structure_are_evaluated() -> None:
    def loss(outputs: Tensor, targets: Any) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets["label"])

    def accuracy(outputs: Tensor, targets: Any) -> float:
        return float((outputs.argmax(1) == targets["label"]).double().mean())

    def of(task: Task) -> Task:
        own, held = _Labelled(task), _Labelled(task, "validation")
        return Task(task.name, own, held, loss=loss, metrics={"accuracy": accuracy})

    settings = SETTINGS.changed(rounds=10, evaluate_every=10, keep_best=False)
    found = fit(a_classifier(), [of(task) for task in classes(3, 4)], settings).validation
    plain = fit(a_classifier(), classes(3, 4), settings).validation
    assert found is not None and plain is not None and plain.accuracies is not None
    assert_close(found.losses, plain.losses, rtol=1e-5, atol=1e-6)
    assert_close(found.metrics["accuracy"], plain.accuracies)


@mark.filterwarnings("ignore:Training one run at a time")
def test_a_loader_shuffles_for_a_run_beside_others_as_for_it_alone() -> None:
    tasks = [replace(t, train=loaders()["loader"](t)) for t in classes(3, 4)]
    runs = [Run(a_classifier(), tasks, seed, SETTINGS) for seed in range(2)]
    together, *alone = (list(train(own))[-1].outcomes for own in (runs, runs[:1], runs[1:]))
    assert together is not None
    for beside, own in zip(together, alone, strict=True):
        assert own is not None
        assert n_different(beside.weights, own[0].weights) == 0
