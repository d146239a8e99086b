"""The map: its points, its tasks, and the oracle pattern."""

from dataclasses import replace
from pathlib import Path

import torch
from pytest import MonkeyPatch, mark
from torch import Tensor
from torch.testing import assert_close

from allotment.experiments import TaskChoice
from allotment.paper import EXPERIMENTS, MAPS
from allotment.paper._map import EXAMPLES, POINTS, RHOS, Ways, fewer_examples
from allotment.paper._synthetic import NOISE, Point, SineSamples, pairs_at
from allotment.tasks import GeneratedDataset, Split, Task
from tests.experiments.toy import make_small_data


def rows(split: Split | None) -> set[int]:
    assert split is not None and split.rows is not None
    found: list[int] = split.rows.tolist()
    assert len(set(found)) == len(found)
    return set(found)


def a_point(n: int | None = 200, rho: float = 0.5, **changes: int) -> list[Task]:
    return pairs_at(Point(rho=rho, n_examples=n, **changes), seed=3)


def test_all_of_the_first_two_axes_and_the_others_one_at_a_time() -> None:
    usual = [p for p in POINTS.values() if (p.width, p.n_tasks) == (16, 4)]
    assert [(p.n_examples, p.rho) for p in usual] == [(n, rho) for n in EXAMPLES for rho in RHOS]
    others = {(p.width, p.n_tasks) for p in POINTS.values()} - {(16, 4)}
    assert others == {(4, 4), (64, 4), (16, 8), (16, 16)}
    assert MAPS[0].data.conditions == tuple(POINTS)
    assert str(Point(rho=0.3, n_examples=None)) == "rho=0.3 n=unlimited"
    assert str(Point(rho=1.0, n_examples=200, n_tasks=8)) == "rho=1 n=200 tasks=8"


@mark.parametrize("n", [50, 200, 5_000])
def test_a_fifth_of_the_examples_is_for_validation_and_none_for_training_too(n: int) -> None:
    for task in a_point(n):
        train, validation = rows(task.split("train")), rows(task.split("validation"))
        assert (len(train), len(validation)) == (4 * n // 5, n // 5)
        assert not train & validation
        assert train | validation == set(range(n))


def test_fewer_examples_are_a_part_of_more_and_relatedness_moves_no_input() -> None:
    few, more = a_point(50), a_point(1_000, rho=1.0)
    for a, b in zip(few, more, strict=True):
        assert a.train.inputs is b.train.inputs
        assert rows(a.train) < rows(b.train)
        assert a.test.inputs is b.test.inputs
    for first in (0, 2):  # of its pair, which has the same direction at any relatedness
        assert torch.equal(few[first].train.targets, more[first].train.targets)
        assert not torch.equal(few[first + 1].train.targets, more[first + 1].train.targets)


def test_test_examples_are_the_same_at_all_points_and_others_than_those_for_training() -> None:
    one, other = a_point(50), a_point(None)
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a.test.targets, b.test.targets)
        assert a.test.rows is None and len(a.test) == 2_000
        assert not (a.test.inputs[:, None, 0] == a.train.inputs[None, :50, 0]).any()


def test_tasks_have_inputs_of_their_own_so_that_sharing_means_more_examples() -> None:
    tasks = a_point(rho=1.0)
    assert len({id(task.train.inputs) for task in tasks}) == 4
    assert not torch.equal(tasks[0].train.inputs, tasks[1].train.inputs)


def test_unlimited_examples_are_generated_and_checked_on_fixed_ones() -> None:
    for task in a_point(None):
        assert isinstance(task.train, GeneratedDataset)
        assert len(rows(task.split("validation"))) == 1_000


def test_targets_are_those_of_the_task_s_direction() -> None:
    limited, generated = a_point(200), a_point(None)
    for task, other in zip(limited, generated, strict=True):
        samples: SineSamples = other.train
        for split in (task.train, task.test):
            clean = samples.labels(split.inputs, torch.Generator())
            assert (split.targets - clean).std() < 4 * NOISE


def matrix(n_tasks: int, n_components: int) -> Tensor:
    ways = Ways(rates=(0.1,))
    assert ways.oracle is not None
    return ways.oracle.allocation(n_tasks, n_components).matrix()


def test_the_oracle_pattern_is_that_of_the_pairs() -> None:
    ones = torch.ones(2, 2)
    assert_close(matrix(6, 6), torch.block_diag(ones, ones, ones))
    assert_close(matrix(4, 8), torch.block_diag(torch.ones(2, 4), torch.ones(2, 4)))


def test_each_way_has_all_rates_and_methods_have_their_own_names() -> None:
    ways = Ways(rates=(0.1, 0.01), times=10.0)
    methods = ways.methods
    assert len({method.name for method in methods}) == len(methods) == 8
    assert [m.training["learning_rate"] for m in methods] == [0.1, 0.01] * 4
    assert [m.training["allocation_learning_rate"] for m in methods] == [1.0, 0.1] * 4


@mark.parametrize("name", ["map_census", "map_mnist"])
def test_real_tasks_have_at_most_so_many_examples(
    name: str, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    experiment = EXPERIMENTS[name]
    folder = make_small_data(tmp_path, monkeypatch, *experiment.data.sets)
    whole = experiment.make_tasks(TaskChoice("n=all", 0, folder))
    for n in (10, 20):
        for seed in (0, 1):
            for task, full in zip(fewer_examples(whole, n, seed=seed), whole, strict=True):
                for part, most in (("train", 4 * n // 5), ("validation", n // 5)):
                    found, every = rows(task.split(part)), rows(full.split(part))
                    assert len(found) == min(most, len(every))
                    assert found <= every
                assert task.test is full.test
                assert task.n_outputs == full.n_outputs


def test_fewer_real_examples_are_a_part_of_more_and_seeds_have_their_own() -> None:
    x = torch.randn(100, 3)
    split = Split(x, torch.randn(100), torch.arange(100))
    task = Task("a", split, validation=split, test=split)
    first, more, other = (
        rows(fewer_examples([task], n, seed=seed)[0].train)
        for n, seed in ((20, 0), (40, 0), (20, 1))
    )
    assert first < more
    assert first != other
    (renamed,) = fewer_examples([replace(task, name="b")], 20, seed=0)
    assert rows(renamed.train) != first
