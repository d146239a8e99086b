"""Evaluation on held-out examples: equal to a plain evaluation of the network itself."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose
from pytest import MonkeyPatch, fixture, mark
from torch import Tensor, nn

from allotment._schema import Evaluation, Outcome
from allotment.allocation import GumbelMatrix
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.tasks import Loss, Split, Task
from allotment.training import Run, _evaluation
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    classes,
    lines,
    mixed,
    mixed_network,
    outcomes_of,
)

WIDTHS = (2, 5, 3)


def a_classifier(seed: int, tasks: list[Task] | None = None) -> Run:
    def build() -> MultiTaskNetwork:
        heads = [nn.Linear(4, width) for width in WIDTHS]
        return a_network(GumbelMatrix(3, 4), heads, dropout=0.5)

    return a_run(seed, SETTINGS, tasks=tasks or classes(*WIDTHS), build=build)


def two_heads() -> MultiTaskNetwork:
    return a_network(GumbelMatrix(2, 2), [nn.Linear(4, 3), nn.Linear(4, 3)])


@torch.no_grad()
def by_hand(run: Run, outcome: Outcome, part: str) -> Evaluation:
    """Returns the evaluation of a run's own network with the weights it ended with."""
    network = deepcopy(run.network)
    network.load_state_dict(outcome.weights)
    network.eval()
    losses, accuracies = [], []
    for index, task in enumerate(run.tasks):
        split = task.split(part)
        assert split is not None
        x, y = split.examples()
        y = y if y.is_floating_point() else y.long()
        outputs = network(x, index)
        losses.append(task.loss_function(outputs, y).item())
        accuracies.append(np.nan)
        if task.is_classification and outputs.shape[1] > 1:
            assert outputs.shape[1] == task.n_outputs
            accuracies[-1] = (outputs.argmax(dim=1) == y).double().mean().item()
    return Evaluation(
        split=part,
        losses=np.array(losses),
        accuracies=None if np.isnan(accuracies).all() else np.array(accuracies),
    )


def assert_equal(found: Evaluation | None, expected: Evaluation) -> None:
    """Asserts that two evaluations agree."""
    assert found is not None
    assert found.split == expected.split
    assert_allclose(found.losses, expected.losses, rtol=1e-4, atol=1e-6)
    assert (found.accuracies is None) == (expected.accuracies is None)
    if found.accuracies is not None and expected.accuracies is not None:
        assert_allclose(found.accuracies, expected.accuracies, rtol=1e-6)


@mark.parametrize("n_runs", [1, 3])
@mark.parametrize("tasks_are_shared", [True, False])
def test_evaluation_equals_that_of_the_users_network(n_runs: int, tasks_are_shared: bool) -> None:
    tasks = classes(*WIDTHS) if tasks_are_shared else None
    runs = [a_classifier(seed, tasks) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_equal(outcome.validation, by_hand(run, outcome, "validation"))
        assert_equal(outcome.test, by_hand(run, outcome, "test"))


def test_runs_with_examples_of_their_own_are_evaluated_at_once_where_these_are_as_many(
    monkeypatch: MonkeyPatch,
) -> None:
    monkeypatch.setattr(_evaluation, "EXAMPLES_AT_ONCE", {"cpu": 60})  # two runs of 30 examples
    sizes = (30, 30, 30, 17, 30, 70)
    runs = [a_classifier(seed, classes(*WIDTHS, n_held_out=n)) for seed, n in enumerate(sizes)]
    together: list[int] = []
    at_once = _evaluation._column_of_each

    def noting(*arguments: Any) -> Any:
        together.append(len(arguments[3]))
        return at_once(*arguments)

    monkeypatch.setattr(_evaluation, "_column_of_each", noting)
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_equal(outcome.validation, by_hand(run, outcome, "validation"))
        assert_equal(outcome.test, by_hand(run, outcome, "test"))
    assert together == [2] * len(WIDTHS) * 2  # of the first three runs two, on both splits


def test_many_examples_are_evaluated_in_parts_of_unequal_size() -> None:
    tasks = classes(*WIDTHS, n_held_out=20_011)  # more than are evaluated together
    runs = [a_classifier(seed, tasks) for seed in range(2)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_equal(outcome.test, by_hand(run, outcome, "test"))


@mark.parametrize(
    ("n_numbers", "n_runs", "expected"),
    [(2, 1, {2_048, 152}), (2**11, 1, {128, 24}), (2**11, 2, {64, 24}), (2**17, 1, {16, 8})],
)
def test_on_a_cpu_large_examples_are_evaluated_a_few_at_a_time(
    n_numbers: int, n_runs: int, expected: set[int]
) -> None:
    n = 2_200 if n_numbers < 2**17 else 40
    examples = Split(torch.zeros(1, n_numbers).expand(n, -1), torch.zeros(n))
    size = _evaluation._examples_at_once(examples, "cpu", n_runs)
    assert {len(part) for part in examples.all_rows().split(size)} == expected


@fixture
def lengths(monkeypatch: MonkeyPatch) -> list[int]:
    """How many examples each batch has, where they are filled up as on a GPU."""
    assert _evaluation.FILLED_UP == {"cpu": False, "cuda": True}
    monkeypatch.setattr(_evaluation, "FILLED_UP", {"cpu": True})
    found: list[int] = []
    batches = _evaluation._batches

    def noting(*arguments: Any) -> Any:
        for x, y in batches(*arguments):
            found.append(len(x))
            yield x, y

    monkeypatch.setattr(_evaluation, "_batches", noting)
    return found


@mark.parametrize("n_runs", [1, 2])
def test_batches_are_filled_up_to_few_lengths_and_no_example_counts_twice(
    n_runs: int, lengths: list[int], monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(_evaluation, "EXAMPLES_AT_ONCE", {"cpu": 70 * n_runs})
    tasks = [classes(*WIDTHS, n_held_out=n)[i] for i, n in enumerate((5, 103, 64))]
    runs = [a_classifier(seed, tasks) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_equal(outcome.test, by_hand(run, outcome, "test"))
    assert set(lengths) == {8, 70, 64}  # of 103, 70 and 33


def test_examples_that_are_compared_with_each_other_are_left_as_they_are(
    lengths: list[int],
) -> None:
    def build() -> MultiTaskNetwork:
        network = two_heads()
        network.stem = nn.Sequential(nn.BatchNorm1d(N_INPUTS, track_running_stats=False))
        return network

    tasks = [classes(3, 3, n_held_out=5)[0], classes(3, 3, n_held_out=9)[1]]
    run = a_run(tasks=tasks, build=build)
    (outcome,) = outcomes_of([run])
    assert_equal(outcome.test, by_hand(run, outcome, "test"))
    assert set(lengths) == {5, 9}


def test_large_examples_that_are_compared_with_each_other_stay_in_one_batch(
    monkeypatch: MonkeyPatch,
) -> None:
    def build() -> MultiTaskNetwork:
        network = two_heads()
        network.stem = nn.Sequential(nn.BatchNorm1d(N_INPUTS, track_running_stats=False))
        return network

    monkeypatch.setattr(_evaluation, "NUMBERS_AT_ONCE", {"cpu": 16 * N_INPUTS})
    run = a_run(tasks=classes(3, 3, n_held_out=40), build=build)
    (outcome,) = outcomes_of([run])
    assert_equal(outcome.test, by_hand(run, outcome, "test"))


@mark.parametrize("n_runs", [1, 2])
def test_a_regression_has_losses_and_no_accuracies(n_runs: int) -> None:
    x, y = torch.randn(30, N_INPUTS), torch.randn(30)
    tasks = [Task(name, (x, y), test=(x, y)) for name in "ab"]
    runs = [a_run(seed, tasks=tasks) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_equal(outcome.test, by_hand(run, outcome, "test"))
        assert outcome.test is not None and outcome.test.accuracies is None
        assert outcome.validation is None


@mark.parametrize("n_runs", [1, 2])
def test_accuracies_are_of_the_tasks_that_classify(n_runs: int) -> None:
    tasks = mixed()
    runs = [a_run(seed, tasks=tasks, build=mixed_network) for seed in range(n_runs)]
    for run, outcome in zip(runs, outcomes_of(runs), strict=True):
        assert_equal(outcome.test, by_hand(run, outcome, "test"))
        assert outcome.test is not None and outcome.test.accuracies is not None
        assert np.isnan(outcome.test.accuracies).tolist() == [False, True, True, False, True]
        assert np.isfinite(outcome.test.losses).all()


def weighted(outputs: Tensor, targets: Tensor) -> Tensor:
    return 5 * nn.functional.cross_entropy(outputs, targets)


@mark.parametrize("loss", [weighted, nn.functional.multi_margin_loss])
def test_accuracy_is_accuracy_whatever_the_loss(loss: Loss) -> None:
    tasks = [replace(task, loss=loss) for task in classes(3, 3)]
    run = a_run(tasks=tasks, build=two_heads)
    (outcome,) = outcomes_of([run])
    assert_equal(outcome.test, by_hand(run, outcome, "test"))
    assert outcome.test is not None and outcome.test.accuracies is not None
    assert np.isfinite(outcome.test.accuracies).all()


def test_one_output_for_two_classes_has_no_accuracy() -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        logits = outputs.squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))

    x, y = torch.randn(20, N_INPUTS), torch.arange(20) % 2
    tasks = [Task(name, (x, y), test=(x, y), loss=loss) for name in "ab"]
    (outcome,) = outcomes_of([a_run(tasks=tasks)])
    assert outcome.test is not None and outcome.test.accuracies is None


@mark.parametrize("n_runs", [1, 2])
def test_labels_that_are_not_known_count_nowhere(n_runs: int) -> None:
    tasks = []
    for task in classes(3, 3):
        parts: dict[str, Any] = {}
        for part in ("train", "validation", "test"):
            split = task.split(part)
            assert split is not None and split.rows is not None
            unknown = torch.randperm(len(split))[:11]
            targets = split.targets.clone()
            targets[split.rows[unknown]] = -100
            parts[part] = replace(split, targets=targets)
        tasks.append(Task(task.name, **parts, n_outputs=3))
    assert len(tasks[0].test) == 19
    alone = []
    for task in tasks:
        own: Any = {part: getattr(task, part).examples() for part in parts}
        alone.append(Task(task.name, **own, n_outputs=3))
    found, expected = (
        outcomes_of([a_run(seed, tasks=each, build=two_heads) for seed in range(n_runs)])
        for each in (tasks, alone)
    )
    for a, b in zip(found, expected, strict=True):
        assert all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
        assert a.test is not None and b.test is not None
        assert_allclose(a.test.losses, b.test.losses, rtol=0)
        assert_equal(a.validation, b.validation)  # type: ignore[arg-type]


class Tagger(nn.Module):
    """A label for each token: outputs of shape ``[B, classes, L]``."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.scores(x)
        return y.transpose(1, 2)


@mark.parametrize("loss", [None, nn.CrossEntropyLoss()])
def test_labels_by_token_that_are_not_known_count_nowhere(loss: Loss | None) -> None:
    def build() -> MultiTaskNetwork:
        torch.manual_seed(0)
        layer = ModularLayer([nn.Linear(4, 4), nn.Linear(4, 4)], GumbelMatrix(2, 2))
        return MultiTaskNetwork(nn.Embedding(9, 4), [layer], [Tagger(), Tagger()])

    x, y = torch.randint(9, (30, 5)), torch.randint(3, (30, 5))
    y[torch.rand(30, 5) < 0.4] = -100
    y[3] = -100  # an example without any
    tasks = [Task(name, (x, y), test=(x, y), loss=loss, n_outputs=3) for name in "ab"]
    assert len(tasks[0].test) == 29
    run = a_run(tasks=tasks, build=build)
    (outcome,) = outcomes_of([run])
    assert outcome.failed_step is None
    network = run.network
    network.load_state_dict(outcome.weights)
    outputs = network.eval()(x, 0)
    is_known = y != -100
    right = (outputs.argmax(dim=1) == y)[is_known].double().mean()
    assert outcome.test is not None and outcome.test.accuracies is not None
    assert_allclose(outcome.test.accuracies[0], right)
    expected = nn.functional.cross_entropy(outputs, y).item()
    assert_allclose(outcome.test.losses[0], expected, rtol=1e-5)


def test_bytes_under_a_permutation_are_evaluated_as_they_are_trained() -> None:
    x = torch.randint(256, (40, N_INPUTS), dtype=torch.uint8)
    split = Split(x, torch.randint(3, (40,)), permutation=torch.randperm(N_INPUTS), scale=1 / 255)
    tasks = [Task("a", split, test=split), Task("b", replace(split, permutation=None), test=split)]
    run = a_run(tasks=tasks, build=two_heads)
    (outcome,) = outcomes_of([run])
    assert_equal(outcome.test, by_hand(run, outcome, "test"))


def test_without_the_split_there_is_no_evaluation() -> None:
    (outcome,) = outcomes_of([a_run(tasks=lines())])
    assert outcome.validation is None and outcome.test is None
    tasks = [replace(task, test=None) for task in classes(3, 3)]
    (outcome,) = outcomes_of([a_run(tasks=tasks, build=two_heads)])
    assert outcome.validation is not None and outcome.test is None


def sampled(seed: int, tasks: list[Task]) -> Run:
    def build() -> MultiTaskNetwork:
        allocation = GumbelMatrix(2, 4, evaluation="sampled")
        return a_network(allocation, [nn.Linear(4, 3), nn.Linear(4, 3)])

    return a_run(seed, tasks=tasks, build=build)


def test_runs_with_sampled_evaluation_train_together() -> None:
    tasks = classes(3, 3)
    outcomes = outcomes_of([sampled(0, tasks), sampled(1, tasks)])
    assert all(outcome.test is not None for outcome in outcomes)


def test_a_seed_fixes_sampled_evaluation() -> None:
    losses = []
    for state in (100, 200):
        run = sampled(0, classes(3, 3))
        torch.manual_seed(state)
        (outcome,) = outcomes_of([run])
        assert outcome.test is not None
        losses.append(outcome.test.losses)
    assert_allclose(losses[0], losses[1])
