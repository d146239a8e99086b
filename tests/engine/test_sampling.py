"""Tasks that are drawn more often than others."""

from collections.abc import Iterator

import numpy as np
import torch
from pytest import approx, mark, raises, warns
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from allotment._engine._sampler import Epochs, TaskOrder
from allotment.allocation import GumbelMatrix
from allotment.settings import ROUNDS_PER_BLOCK
from allotment.tasks import Task
from allotment.training import Run, fit
from tests.training.toy import N_INPUTS, SETTINGS, a_network, lines


def arrays(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, N_INPUTS), torch.randn(n)


def a_run(*tasks: Task, **changes: object) -> Run:
    torch.manual_seed(0)
    network = a_network(GumbelMatrix(len(tasks), 3), [torch.nn.Linear(4, 1) for _ in tasks])
    return Run(network, tasks, 5, SETTINGS.changed(**changes))


@mark.parametrize(("power", "shares"), [(0.0, None), (1.0, [0.1, 0.9]), (0.5, [0.25, 0.75])])
def test_shares_follow_a_power_of_the_numbers_of_examples(
    power: float, shares: list[float] | None
) -> None:
    found = a_run(Task("a", arrays(10)), Task("b", arrays(90)), sampling_power=power).shares()
    assert found == (None if shares is None else approx(shares))


def test_shares_may_be_given() -> None:
    tasks = Task("a", arrays(10), sampling=3.0), Task("b", arrays(90))
    assert a_run(*tasks).shares() == approx([0.75, 0.25])


def test_tasks_are_drawn_as_often_as_their_shares_say() -> None:
    order = TaskOrder(a_run(Task("a", arrays(9), sampling=4.0), Task("b", arrays(9))))
    drawn = torch.cat([order.block(number) for number in range(200)])
    n = len(drawn)
    assert n == 200 * 2 * ROUNDS_PER_BLOCK
    standard_error = (0.8 * 0.2 / n) ** 0.5
    assert float((drawn == 0).double().mean()) == approx(0.8, abs=4 * standard_error)


def test_batches_before_a_block_are_counted_in_any_order() -> None:
    run = a_run(Task("a", arrays(9), sampling=4.0), Task("b", arrays(9)))
    order, jumping = TaskOrder(run), TaskOrder(run)
    counts = [order.n_before(number) for number in range(6)]
    assert [jumping.n_before(number) for number in (5, 2, 4)] == [counts[5], counts[2], counts[4]]
    assert sum(counts[5]) == 5 * 2 * ROUNDS_PER_BLOCK


def test_alike_tasks_have_one_batch_in_each_round() -> None:
    order = TaskOrder(a_run(*lines(3)))
    rounds = order.block(7).view(ROUNDS_PER_BLOCK, 3)
    assert (rounds.sort(dim=1).values == torch.arange(3)).all()


def test_an_epoch_has_every_example_once() -> None:
    epochs = Epochs(seed=1, task=0, n_examples=7)
    found = torch.cat([epochs.positions(first, 3) for first in range(0, 21, 3)]).view(3, 7)
    assert (found.sort(dim=1).values == torch.arange(7)).all()


def test_a_task_that_is_drawn_seldom_has_losses_where_it_was_drawn() -> None:
    run = a_run(Task("a", arrays(9), sampling=1e-4), Task("b", arrays(9)), rounds=20)
    with warns(
        UserWarning, match=r"^Task 'a' was in no batch of 20 rounds: it is drawn too seldom"
    ):
        result = fit(run.model, run.tasks, run.settings)
    assert np.isfinite(result.history[-1].losses[1])
    assert np.isnan(result.history[-1].losses[0])
    assert result.failed_step is None


def test_a_joint_step_takes_all_tasks() -> None:
    with raises(ValueError, match=r"Tasks should be drawn alike in joint steps.* \[0\.75, 0\.25\]"):
        a_run(Task("a", arrays(9), sampling=3.0), Task("b", arrays(9)), schedule="joint")


def test_a_loader_has_as_many_examples_as_its_dataset() -> None:
    sized = TensorDataset(*arrays(90))
    tasks = Task("a", arrays(10)), Task("b", DataLoader(sized, batch_size=8))
    assert a_run(*tasks, sampling_power=0.5).shares() == approx([0.25, 0.75])
    endless = Task("b", DataLoader(Endless(), batch_size=8))
    with raises(ValueError, match=r"where the number of a task's examples is not known.* task 'b'"):
        a_run(tasks[0], endless, sampling_power=0.5)


class Endless(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Examples without end."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield torch.randn(N_INPUTS), torch.randn(())


def test_a_power_needs_numbers_of_examples() -> None:
    with raises(ValueError, match=r"`sampling_power` should be 0 where .* and task 'line 0'"):
        a_run(*lines(2), sampling_power=0.5)
