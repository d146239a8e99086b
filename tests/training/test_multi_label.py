"""Examples with labels of several tasks: one batch, one pass over what tasks share."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from pytest import mark, raises, warns
from torch import Tensor, nn
from torch.testing import assert_close

from allotment._engine import Trainer
from allotment.allocation import Allocation, FixedMatrix, GumbelMatrix, ScoreFunctionByExample
from allotment.modules import ModularLayer, MultiTaskNetwork, Operations
from allotment.settings import Optimization, TrainingSettings
from allotment.tasks import Split, Task
from allotment.training import Run, fit, plan, train
from tests.training.toy import N_INPUTS

SETTINGS = TrainingSettings(
    rounds=20, batch_size=8, schedule="multi_label", optimization=Optimization(learning_rate=0.01)
)


def labelled(n: int = 40, *, share_known: float = 1.0) -> list[Task]:
    """Returns a classification and a regression on the same examples, some labels not known."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(n, N_INPUTS, generator=generator)
    kinds = (x[:, 0] + x[:, 1] > 0).long()
    sizes = x[:, 2] - x[:, 3]
    known = torch.rand(2, n, generator=generator) <= share_known
    rows = [own.nonzero().squeeze(1) for own in known]
    return [
        Task("kind", Split(x, kinds, rows[0]), n_outputs=2),
        Task("size", Split(x, sizes, rows[1])),
    ]


def a_network(allocation: Allocation | None = None) -> MultiTaskNetwork:
    torch.manual_seed(0)
    layer = ModularLayer(
        [nn.Linear(5, 4) for _ in range(2)],
        GumbelMatrix(2, 2) if allocation is None else allocation,
    )
    heads = {"kind": nn.Linear(4, 2), "size": nn.Linear(4, 1)}
    return MultiTaskNetwork(nn.Linear(N_INPUTS, 5), [layer, nn.Tanh()], heads)


def by_hand(network: MultiTaskNetwork, tasks: list[Task], batches: list[Tensor]) -> None:
    """Trains on batches of rows, by plain operations, the mean over tasks of means over labels."""
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    network.train()
    for rows in batches:
        total = torch.zeros(())
        for task in tasks:
            own = rows[torch.isin(rows, task.train.rows)]
            if len(own):
                outputs = network(task.train.inputs[own], task.name)
                total = total + task.loss_function(outputs, task.train.targets[own]) / len(tasks)
        optimizer.zero_grad(set_to_none=False)  # a head without a label goes on by its momentum
        total.backward()
        optimizer.step()


@mark.parametrize("share_known", [1.0, 0.6, 0.1])
@mark.parametrize("n_runs", [1, 2])
def test_a_step_follows_the_labels_that_are_known(share_known: float, n_runs: int) -> None:
    tasks = labelled(share_known=share_known)
    fixed = FixedMatrix([[True, False], [True, True]])
    runs = [Run(a_network(fixed), tasks, seed, SETTINGS) for seed in range(n_runs)]
    trainer = Trainer(runs, torch.device("cpu"))
    rows = rows_of(trainer, 0)
    *_, last = train([replace_rounds(run, 10) for run in runs])
    assert last.outcomes is not None
    for r, outcome in enumerate(last.outcomes):
        expected = a_network(fixed)
        by_hand(expected, tasks, list(rows[::2, r]))
        for name, value in expected.state_dict().items():
            assert_close(outcome.weights[name], value, rtol=1e-4, atol=1e-5, msg=name)


def rows_of(trainer: Trainer, number: int) -> Tensor:
    rows = trainer._batches.make(number).rows
    assert rows is not None
    return rows.clone()


def replace_rounds(run: Run, rounds: int) -> Run:
    return Run(run.model, run.tasks, run.seed, run.settings.changed(rounds=rounds))


def test_what_tasks_share_is_computed_once() -> None:
    tasks = labelled(share_known=0.6)

    def n_operations(schedule: str) -> int:
        network = a_network()
        network.stem = nn.Sequential(nn.Linear(N_INPUTS, 400), nn.Linear(400, 5))
        run = Run(network, tasks, 0, SETTINGS.changed(schedule=schedule, trace=False))
        trainer = Trainer([run], torch.device("cpu"))
        with Operations() as counter:  # type: ignore[no-untyped-call]
            trainer.steps(0, 2)
        return int(counter.total)

    assert n_operations("multi_label") < 0.6 * n_operations("joint")


def test_an_epoch_has_every_example_with_a_label_once() -> None:
    tasks = labelled(40, share_known=0.6)
    known = torch.cat([task.train.rows for task in tasks]).unique()
    run = Run(a_network(), tasks, 0, SETTINGS.changed(batch_size=1))
    trainer = Trainer([run], torch.device("cpu"))
    rows = torch.cat([rows_of(trainer, number)[::2, 0, 0] for number in range(10)])
    assert_close(rows[: len(known)].sort().values, known)


def test_a_task_without_a_label_in_a_batch_has_no_loss() -> None:
    first, second = labelled()
    seldom = replace(second, train=replace(second.train, rows=torch.tensor([0])))
    with warns(UserWarning, match="'size' was in no batch of 10 rounds"):
        result = fit(a_network(), [first, seldom], SETTINGS.changed(rounds=10, batch_size=1))
    losses = np.stack([entry.losses for entry in result.history])
    assert np.isfinite(losses[:, 0]).all()
    assert not (losses[:, 1] == 0).any()
    assert result.failed_step is None


def test_it_learns() -> None:
    tasks = labelled(200, share_known=0.5)
    result = fit(a_network(), tasks, SETTINGS.changed(rounds=300, batch_size=32))
    assert (result.history[-1].losses < 0.5 * result.history[0].losses).all()


@mark.parametrize("share_known", [1.0, 0.5])
@mark.parametrize("allocate", [GumbelMatrix, partial(ScoreFunctionByExample, n_features=5)])
def test_pieces_of_a_batch_are_the_batch(
    allocate: Callable[[int, int], Allocation], share_known: float
) -> None:
    weights = []
    for n in (1, 2):
        torch.manual_seed(1)
        network = a_network(allocate(2, 2))
        tasks = labelled(share_known=share_known)
        fit(network, tasks, SETTINGS.changed(accumulate=n))
        weights.append(network.state_dict())
    for name, value in weights[0].items():
        assert_close(weights[1][name], value, rtol=1e-4, atol=1e-5)


def test_heads_of_any_kind_take_part() -> None:
    tasks = labelled(share_known=0.6)
    body = a_network()
    heads = {"kind": nn.Sequential(nn.Linear(4, 2)), "size": nn.Linear(4, 1)}
    network = MultiTaskNetwork(body.stem, list(body.layers), heads)
    assert plan([Run(network, tasks, 0, SETTINGS)]).task.value == "number"
    assert fit(network, tasks, SETTINGS).failed_step is None


def test_tasks_share_their_inputs() -> None:
    first, second = labelled()
    apart = replace(second, train=replace(second.train, inputs=second.train.inputs.clone()))
    with raises(ValueError, match=r"share one array of inputs .* task 'size' has its own\."):
        Run(a_network(), [first, apart], 0, SETTINGS)


def test_a_loss_of_ones_own_is_a_mean_over_known_labels() -> None:
    first, second = labelled(share_known=0.5)
    own = replace(second, loss=lambda outputs, y: F.huber_loss(outputs.squeeze(1), y))
    assert fit(a_network(), [first, own], SETTINGS).failed_step is None


def test_batches_without_a_label_do_not_count_as_losses_of_zero() -> None:
    still = SETTINGS.changed(batch_size=1, learning_rate=1e-9)
    *_, last = train([Run(a_network(), labelled(share_known=0.3), 0, still)], n_last_rounds=10)
    assert last.outcomes is not None
    assert_close(float(last.losses[0]), last.outcomes[0].final_loss)
