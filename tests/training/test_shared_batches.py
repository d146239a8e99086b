"""Batches with targets of several tasks: from datasets, loaders and functions."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pytest import mark, param, raises, warns
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.data import DataLoader, Dataset

from allotment._engine import Trainer
from allotment.allocation import FixedMatrix, ScoreFunctionMatrix
from allotment.modules import MultiTaskNetwork, Operations
from allotment.tasks import MultiLabel, Task
from allotment.training import Run, fit, plan, train
from tests.training.test_multi_label import SETTINGS, a_network, labelled
from tests.training.toy import N_INPUTS


class Rows(Dataset[tuple[Tensor, dict[str, Tensor]]]):
    """The examples of tasks on one array, with the targets of all of them."""

    def __init__(self, tasks: list[Task]) -> None:
        rows = torch.cat([task.train.rows for task in tasks]).unique()
        self.x = tasks[0].train.inputs[rows]
        self.targets = {}
        for task in tasks:
            y = task.train.targets.clone()
            y[~torch.isin(torch.arange(len(y)), task.train.rows)] = (
                torch.nan if y.is_floating_point() else -100
            )
            self.targets[task.name] = y[rows]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> tuple[Tensor, dict[str, Tensor]]:
        return self.x[row], {name: y[row] for name, y in self.targets.items()}


def batches_of(rows: Rows, size: int = 8) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    for part in torch.arange(len(rows)).split(size):
        yield rows.x[part], {name: y[part] for name, y in rows.targets.items()}


def tasks_of(source: Any, names: tuple[str, ...] = (), **options: Any) -> list[Task]:
    shared = MultiLabel(source, names)
    return [
        Task("kind", shared, n_outputs=2, **options),
        Task("size", shared, n_outputs=1, **options),
    ]


def assert_equal(a: nn.Module, b: nn.Module) -> None:
    for name, value in a.state_dict().items():
        assert_close(b.state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)


@mark.parametrize("share_known", [1.0, 0.6, 0.1])
def test_a_dataset_trains_as_arrays_do(share_known: float) -> None:
    tasks = labelled(share_known=share_known)
    arrays, streamed = a_network(), a_network()
    wanted = fit(arrays, tasks, SETTINGS)
    found = fit(streamed, tasks_of(Rows(tasks)), SETTINGS)
    assert_equal(arrays, streamed)
    for entry, expected in zip(found.history, wanted.history, strict=True):
        np.testing.assert_allclose(entry.losses, expected.losses, rtol=1e-4)


@mark.filterwarnings("ignore:Training one run at a time")
@mark.parametrize(("accumulate", "n_seen"), [(1, [20, 4]), (5, [20, 20])])
@mark.parametrize("n_runs", [1, 2])
def test_a_step_without_labels_of_a_task_is_not_observed(
    n_runs: int, accumulate: int, n_seen: list[int]
) -> None:
    rows = Rows(labelled())
    rows.targets["size"][8:] = torch.nan  # one of five batches has labels
    settings = SETTINGS.changed(batch_size=10, accumulate=accumulate)
    tasks = tasks_of(lambda: batches_of(rows))
    network = a_network(ScoreFunctionMatrix(2, 2))
    *_, last = train([Run(network, tasks, seed, settings) for seed in range(n_runs)])
    for outcome in last.outcomes or []:
        assert outcome.weights["layers.0.allocation.baseline.n_seen"].tolist() == n_seen


def test_pieces_count_each_known_label_once() -> None:
    rows = Rows(labelled(share_known=0.5))
    whole, pieces = (a_network(FixedMatrix([[True, False], [True, True]])) for _ in range(2))
    rows.x = rows.x[:24]
    fit(whole, tasks_of(lambda: batches_of(rows, 8)), SETTINGS)
    fit(pieces, tasks_of(lambda: batches_of(rows, 4)), SETTINGS.changed(accumulate=2))
    assert_equal(whole, pieces)


def stacked(batches: Any) -> tuple[Tensor, Tensor]:
    x, y = torch.utils.data.default_collate(batches)
    kind = torch.where(y["kind"] == -100, torch.nan, y["kind"].float())
    return x, torch.stack([kind, y["size"]], dim=1)


@mark.parametrize(
    "source",
    [
        param(lambda rows: DataLoader(rows, batch_size=8), id="loader"),
        param(lambda rows: list(batches_of(rows)).__iter__, id="function"),
        param(lambda rows: Dicts(rows), id="dicts with labels"),
    ],
)
def test_all_sources_give_the_same(source: Callable[[Rows], Any]) -> None:
    rows = Rows(labelled(share_known=0.6))
    expected, network = a_network(), a_network()
    fit(expected, tasks_of(lambda: batches_of(rows)), SETTINGS)
    fit(network, tasks_of(source(rows)), SETTINGS)
    assert_equal(expected, network)


class Dicts:
    """Batches that are dicts, of which one entry is the labels."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for x, y in batches_of(self.rows):
            yield {"input": x, "labels": y}


def test_columns_of_a_tensor_are_named() -> None:
    rows = Rows(labelled(share_known=0.6))
    loss = {"kind": lambda o, y: nn.functional.cross_entropy(o, y.long()), "size": None}
    networks = [a_network(), a_network()]
    fit(networks[0], tasks_of(DataLoader(rows, batch_size=8)), SETTINGS)
    columns = DataLoader(rows, batch_size=8, collate_fn=stacked)
    tasks = [replace(t, loss=loss[t.name]) for t in tasks_of(columns, ("kind", "size"))]
    fit(networks[1], tasks, SETTINGS)
    assert_equal(*networks)


def test_a_label_that_is_not_known_leaves_no_gradient() -> None:
    rows = Rows(labelled())
    rows.targets["size"][:] = torch.nan
    network, before = a_network(), a_network()
    with warns(UserWarning, match="'size' was in no batch of 20 rounds.* none of its labels is"):
        result = fit(network, tasks_of(rows), SETTINGS.changed(weight_decay=0.0))
    after, start = network.state_dict(), before.state_dict()
    moved = {name for name in start if not torch.equal(after[name], start[name])}
    assert {"heads.0.weight", "stem.weight"} < moved and "heads.1.weight" not in moved
    assert np.isnan(result.history[-1].losses[1]) and result.failed_step is None


def test_what_is_not_known_may_be_any_number() -> None:
    networks = [a_network(), a_network()]
    for network, value in zip(networks, (0.0, 1e6), strict=True):
        rows = Rows(labelled(share_known=0.5))
        rows.x = rows.x.clone()
        nowhere = rows.targets["size"].isnan() & (rows.targets["kind"] == -100)
        rows.x[nowhere] = value
        fit(network, tasks_of(rows), SETTINGS)
    assert_equal(*networks)


def test_what_tasks_share_is_computed_once() -> None:
    rows = Rows(labelled(share_known=0.6))

    def n_operations(schedule: str) -> int:
        network = a_network()
        network.stem = nn.Sequential(nn.Linear(N_INPUTS, 400), nn.Linear(400, 5))
        run = Run(network, tasks_of(rows), 0, SETTINGS.changed(schedule=schedule))
        trainer = Trainer([run], torch.device("cpu"))
        with Operations() as counter:  # type: ignore[no-untyped-call]
            trainer.steps(0, 2)
        return int(counter.total)

    assert n_operations("multi_label") < 0.7 * n_operations("joint")


@mark.parametrize("schedule", ["alternating", "joint"])
def test_other_schedules_take_the_known_labels_of_each_task(schedule: str) -> None:
    rows = Rows(labelled(share_known=0.5))
    seen: list[Tensor] = []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        seen.append(targets)
        return (outputs.squeeze(1) - targets).square().mean()

    kind, size = tasks_of(DataLoader(rows, batch_size=8))
    fit(a_network(), [kind, replace(size, loss=loss)], SETTINGS.changed(schedule=schedule))
    assert all(len(own) and own.isfinite().all() for own in seen)
    assert min(map(len, seen)) < 8  # of some batches a part alone


def test_evaluation_leaves_out_what_is_not_known() -> None:
    held = labelled(share_known=0.5)
    rows = Rows(held)
    arrays = [replace(task, validation=task.train) for task in held]
    wanted = fit(a_network(), arrays, SETTINGS).validation
    for source in (rows, DataLoader(rows, batch_size=3)):
        tasks = [replace(task, validation=MultiLabel(source)) for task in held]
        found = fit(a_network(), tasks, SETTINGS).validation
        assert wanted is not None and found is not None
        np.testing.assert_allclose(found.losses, wanted.losses, rtol=1e-5)
        assert wanted.accuracies is not None and found.accuracies is not None
        np.testing.assert_allclose(found.accuracies, wanted.accuracies, rtol=1e-6)


def test_several_runs_train_one_after_another() -> None:
    rows = Rows(labelled(share_known=0.5))
    runs = [Run(a_network(), tasks_of(rows), seed, SETTINGS) for seed in (0, 1)]
    with warns(UserWarning, match="one run at a time: batches are fetched one by one"):
        *_, last = train(runs)
    alone = a_network()
    fit(alone, tasks_of(rows), SETTINGS, seed=1)
    assert last.outcomes is not None
    for name, value in last.outcomes[1].weights.items():
        # Up to rounding: the rows of two runs lie elsewhere in memory than those of one.
        assert_close(value, alone.state_dict()[name], rtol=0, atol=1e-6)


def test_the_plan_says_that_a_pass_is_shared() -> None:
    made = plan([Run(a_network(), tasks_of(Rows(labelled())), 0, SETTINGS)])
    assert made.task.value == "tensor"
    assert made.step.value == "eager" and "batches are fetched one by one" in made.step.reason


def test_a_resumed_training_is_exact() -> None:
    rows, settings = Rows(labelled(44, share_known=0.5)), SETTINGS.changed(rounds=30)
    *_, whole = train([Run(a_network(), tasks_of(rows), 3, settings)])
    state = next(train([Run(a_network(), tasks_of(rows), 3, settings)])).state
    assert state is not None
    *_, rest = train([Run(a_network(), tasks_of(rows), 3, settings)], resume_from=state())
    assert whole.outcomes is not None and rest.outcomes is not None
    for name, value in whole.outcomes[0].weights.items():
        assert_close(rest.outcomes[0].weights[name], value, rtol=0, atol=0)


def test_heads_of_any_kind_take_part() -> None:
    body = a_network()
    heads = {"kind": nn.Sequential(nn.Linear(4, 2)), "size": nn.Linear(4, 1)}
    network = MultiTaskNetwork(body.stem, list(body.layers), heads)
    rows = Rows(labelled(share_known=0.6))
    assert fit(network, tasks_of(rows), SETTINGS).failed_step is None


def test_tasks_share_one_object() -> None:
    first, _ = tasks_of(Rows(labelled()))
    _, second = tasks_of(Rows(labelled()))
    with raises(ValueError, match=r"batches of one `MultiLabel`\. Found that task 'size' has its"):
        Run(a_network(), [first, second], 0, SETTINGS)


X = torch.zeros(4, N_INPUTS)


@mark.parametrize(
    ("targets", "names", "message"),
    [
        ({"kind": torch.zeros(4)}, (), r"targets for task 'size'\. Found \['kind'\]"),
        (torch.zeros(4, 2), (), r"a column for each of `names`\. Found a Tensor of shape \[4, 2\]"),
        (torch.zeros(4, 3), ("kind", "size"), r"for `names = \['kind', 'size'\]`"),
        (torch.zeros(4, 2), ("kind", "place"), r"for task 'size'\. Found \['kind', 'place'\]"),
    ],
)
def test_targets_have_a_part_for_each_task(
    targets: Any, names: tuple[str, ...], message: str
) -> None:
    shared = MultiLabel(lambda: iter([(X, targets)]), names)
    with raises(ValueError, match=message):
        fit(a_network(), [Task("kind", shared, loss=first_output), Task("size", shared)], SETTINGS)


def first_output(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets).square().mean()


def test_arrays_are_refused() -> None:
    with raises(ValueError, match=r"`tasks_from_table` takes arrays\. Found a tuple of Tensor"):
        MultiLabel((X, X))


def test_tasks_that_go_through_batches_alone_need_them_again() -> None:
    tasks = tasks_of(batches_of(Rows(labelled())))
    with raises(ValueError, match="'kind', of several that share: batches should be such as can"):
        fit(a_network(), tasks, SETTINGS.changed(schedule="alternating"))
