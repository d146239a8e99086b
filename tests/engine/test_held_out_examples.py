"""The examples that are held out for allocations, and what does not go with them."""

from dataclasses import replace
from itertools import pairwise

import torch
from pytest import mark, raises
from torch import Tensor, nn

from allotment import plan
from allotment._engine import Trainer
from allotment._engine._sampler import held_out
from allotment.allocation import FixedMatrix, GumbelMatrix
from allotment.modules import MultiTaskNetwork
from allotment.settings import LossBalancing
from allotment.tasks import Split, Stream, Task
from allotment.training import Run
from tests.engine.test_held_out import HELD_OUT, SHARE, of_classes, two_layers
from tests.training.reference import steps_of
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_network,
    a_run,
    classes,
    n_different,
    outcomes_of,
)


class Seen:
    """A loss that remembers targets, which name their examples."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.batches.append(targets.int().tolist())
        return (outputs.view_as(targets) - targets).square().mean()


@mark.parametrize("n", [2, 7, 40])
def test_the_two_parts_are_disjoint_and_stay(n: int) -> None:
    seen = Seen()
    x = torch.randn(n, N_INPUTS)
    task = Task("a", Split(x, torch.arange(float(n))), loss=seen)
    settings = SETTINGS.changed(rounds=40, batch_size=4, allocation_held_out=0.25, trace=False)
    network = a_network(GumbelMatrix(1, 2))
    trainer = Trainer([Run(network, [task], 0, settings)], torch.device("cpu"))
    seen.batches.clear()
    for block in range(4):
        trainer.steps(block, 10)
    inner = {example for batch in seen.batches[::2] for example in batch}
    outer = {example for batch in seen.batches[1::2] for example in batch}
    assert len(seen.batches) == 80
    assert inner.isdisjoint(outer)
    assert inner | outer == set(range(n))  # both are gone through from end to end
    assert len(outer) == max(round(n / 4), 1)


def test_the_part_is_a_matter_of_the_seed() -> None:
    (task,) = classes(3, n=100)
    parts = [held_out(task, SHARE, seed) for seed in (0, 0, 1)]
    assert torch.equal(parts[0], parts[1])
    assert not torch.equal(parts[0], parts[2])
    assert [int(part.sum()) for part in parts] == [30, 30, 30]


def test_tasks_on_the_same_examples_hold_out_the_same() -> None:
    x, y = torch.randn(50, 3), torch.randn(50)
    every, some = torch.randperm(50), torch.randperm(50)[:40]
    rows = {"a": torch.arange(50), "b": every, "c": some}
    parts = {name: held_out(Task(name, Split(x, y, own)), 0.2, 5) for name, own in rows.items()}
    examples = {name: set(rows[name][part].tolist()) for name, part in parts.items()}
    assert examples["a"] == examples["b"]
    assert len(examples["c"]) == 8  # of fewer examples; those that the others hold out come first
    known = examples["a"] & set(some.tolist())
    assert examples["c"] >= known or examples["c"] <= known


def test_an_example_that_is_there_twice_is_in_one_part() -> None:
    rows = torch.arange(10).repeat(3)
    part = held_out(Task("a", Split(torch.randn(10, 3), torch.randn(10), rows)), 0.4, 0)
    assert sorted(rows[part].tolist()) == sorted(3 * rows[part].unique().tolist())
    assert int(part.sum()) == 12


def test_one_example_cannot_be_divided() -> None:
    task = Task("a", Split(torch.randn(1, N_INPUTS), torch.randn(1)))
    run = Run(a_network(GumbelMatrix(1, 2)), [task], 0, HELD_OUT)
    with raises(ValueError, match=r"^Task 'a' should have at least 2 different .* Found 1\.$"):
        Trainer([run], torch.device("cpu"))


def test_generated_examples_are_drawn_once_more() -> None:
    run = a_run(0, HELD_OUT)
    for batch, beside in zip(steps_of(run), steps_of(run, held_out=True), strict=True):
        assert batch.task == beside.task
        assert not torch.isclose(batch.inputs, beside.inputs).any()
        assert batch.noise.gates is not None and beside.noise.gates is not None
        assert not torch.isclose(batch.noise.gates, beside.noise.gates).all()


def test_a_fixed_allocation_leaves_the_held_out_examples_unused() -> None:
    def build() -> MultiTaskNetwork:
        return a_network(FixedMatrix([[1, 1, 0], [0, 1, 1]]), [nn.Linear(4, 2), nn.Linear(4, 3)])

    settings = SETTINGS.changed(allocation_held_out=SHARE)
    run = a_run(0, settings, tasks=classes(2, 3), build=build)
    changed = []
    for task in run.tasks:
        targets, split = task.train.targets.clone(), task.train
        own = split.rows[held_out(task, SHARE, run.seed)]
        targets[own] = (targets[own] + 1) % 2
        changed.append(replace(task, train=replace(split, targets=targets)))
    found = [outcomes_of([replace(run, tasks=tasks)])[0].weights for tasks in (run.tasks, changed)]
    assert n_different(*found) == 0
    learnt = replace(run, model=two_layers())
    found = [
        outcomes_of([replace(learnt, tasks=tasks)])[0].weights for tasks in (run.tasks, changed)
    ]
    assert n_different(*found) > 0


class Combined(LossBalancing):
    needs_gradients = True


@mark.parametrize(
    ("changes", "found"),
    [
        ({"accumulate": 2}, r"`accumulate = 2`"),
        ({"schedule": "multi_label"}, r"`schedule = 'multi_label'`"),
        ({"schedule": "joint", "loss_balancing": Combined()}, r"a `loss_balancing` that does"),
    ],
)
def test_what_does_not_go_with_it_is_refused(changes: dict[str, object], found: str) -> None:
    rule = r"^`allocation_held_out` should be 0 where .* combined\. Found 0\.3 and "
    with raises(ValueError, match=rule + found + r"\.$"):
        SETTINGS.changed(allocation_held_out=SHARE, **changes)
    SETTINGS.changed(allocation_held_out=0.0, **changes)


def test_batches_that_are_fetched_are_refused() -> None:
    batches = [(torch.randn(8, N_INPUTS), torch.randn(8))]
    tasks = [Task(name, Stream(batches)) for name in "ab"]
    run = a_run(0, SETTINGS.changed(allocation_held_out=SHARE), tasks=tasks)
    with raises(ValueError, match=r"^`allocation_held_out` should be 0 where .* Found 0\.3\.$"):
        plan([run])


def test_without_it_nothing_more_is_drawn() -> None:
    run = of_classes(0, SETTINGS)
    trainer = Trainer([run], torch.device("cpu"))
    block = trainer._drawn[1]
    assert block.held_out is None
    assert trainer._batches.batch(block, 0).further == ()
    assert all(a is not b for a, b in pairwise(block.tensors()))
