"""Four offices with two code books: what each of them knows, and what gates make of it."""

import numpy as np
import torch
from pytest import fixture

from allotment._schema import Outcome
from allotment.paper import EXPERIMENTS
from allotment.paper._codebooks import codebooks
from allotment.tasks import Split, Task
from allotment.training import Run, train

CODEBOOKS = EXPERIMENTS["codebooks"]


@fixture(scope="module")
def tasks() -> list[Task]:
    return codebooks()


def split(task: Task, part: str) -> Split:
    found = task.split(part)
    assert found is not None
    return found


def test_each_office_has_drawings_of_its_own_and_is_tested_on_the_same(tasks: list[Task]) -> None:
    rows = {part: [split(task, part).rows for task in tasks] for part in ("train", "test")}
    own = [int(row) for found in rows["train"] if found is not None for row in found]
    assert len(own) == len(set(own)) == 400
    tested = {tuple(found.tolist()) for found in rows["test"] if found is not None}
    assert len(tested) == 1 and not set(own) & set(*tested)


def test_offices_with_one_book_agree_and_others_do_not(tasks: list[Task]) -> None:
    (_, a1), (_, a2), (_, b1), (_, b2) = (split(task, "test").examples() for task in tasks)
    assert torch.equal(a1, a2) and torch.equal(b1, b2)
    codes = {int(digit): set(b1[a1 == digit].tolist()) for digit in range(10)}
    assert all(len(found) == 1 for found in codes.values())
    assert set().union(*codes.values()) == set(range(10))
    assert (a1 == b1).float().mean() < 0.3


def outcomes_of(name: str, tasks: list[Task]) -> list[Outcome]:
    settings = CODEBOOKS.training.changed(rounds=300, evaluate_every=None)
    method, outputs = CODEBOOKS.method(name), dict.fromkeys((task.name for task in tasks), 10)
    networks = [CODEBOOKS.build_network(method, outputs, seed) for seed in range(3)]
    *_, progress = train([Run(network, tasks, s, settings) for s, network in enumerate(networks)])
    assert progress.outcomes is not None
    return list(progress.outcomes)


def accuracies(found: list[Outcome]) -> list[float]:
    return [
        float(o.test.accuracies.mean()) for o in found if o.test and o.test.accuracies is not None
    ]


def test_books_are_found_and_serve_far_better_than_sharing_all(tasks: list[Task]) -> None:
    learnt, shared = (outcomes_of(name, tasks) for name in ("gumbel", "shared_bottom_mean"))
    for outcome in learnt:
        apart = np.abs(outcome.matrix[:, None] - outcome.matrix).sum(axis=2)  # [T, T]
        assert max(apart[0, 1], apart[2, 3]) < apart[:2, 2:].min()
    assert min(accuracies(learnt)) > max(accuracies(shared)) + 0.3
