"""A running mean of each task's losses."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise

import torch
from pytest import approx, mark, raises
from torch import Tensor
from torch.func import functional_call, vmap
from torch.testing import assert_close

from allotment.allocation._baseline import RunningBaseline


def test_the_first_loss_of_a_task_is_its_mean_and_others_move_it() -> None:
    baseline = RunningBaseline(3, 0.75)
    losses = [(0, 4.0), (2, 8.0), (0, 2.0), (0, 6.0)]
    for task, loss in losses:
        baseline.observe(task, torch.tensor(loss))
    by_hand = 0.75 * (0.75 * 4.0 + 0.25 * 2.0) + 0.25 * 6.0
    assert_close(baseline.mean, torch.tensor([by_hand, 0.0, 8.0]))
    assert baseline.n_seen.tolist() == [3, 0, 1]


def test_an_advantage_is_the_loss_above_the_mean_and_has_no_gradient() -> None:
    baseline = RunningBaseline(2, 0.75)
    loss = torch.tensor(5.0, requires_grad=True)
    assert baseline.advantage(0, loss).item() == 0.0  # nothing to be compared with
    baseline.observe(0, torch.tensor(4.0))
    advantage = baseline.advantage(0, loss)
    assert advantage.item() == approx(1.0) and not advantage.requires_grad
    assert baseline.advantage(1, loss).item() == 0.0


def test_tensors_of_tasks_are_batched_over() -> None:
    def after(mean: Tensor, n_seen: Tensor, task: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
        state = {"inner.mean": mean, "inner.n_seen": n_seen}
        functional_call(outer, state, (task, loss))
        return state["inner.mean"], state["inner.n_seen"]

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = RunningBaseline(2, 0.75)

        def forward(self, task: Tensor, loss: Tensor) -> None:
            self.inner.observe(task, loss)

    outer = Outer()
    start, n_seen = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1, 0], [1, 1]])
    tasks, losses = torch.tensor([1, 0]), torch.tensor([5.0, 7.0])
    mean, seen = vmap(after)(start.clone(), n_seen.clone(), tasks, losses)
    assert_close(mean, torch.tensor([[1.0, 5.0], [4.0, 4.0]]))
    assert seen.tolist() == [[1, 1], [2, 1]]


def test_it_travels_with_a_state() -> None:
    baseline, other = RunningBaseline(2, 0.75), RunningBaseline(2, 0.75)
    baseline.observe(1, torch.tensor(3.0))
    other.load_state_dict(baseline.state_dict())
    assert other.advantage(1, torch.tensor(5.0)).item() == approx(2.0)


out_of_range = raises(ValueError, match=r"^`baseline_decay` should be strictly between 0 and 1")


@mark.parametrize(
    ("decay", "expectation"),
    [(0.0, out_of_range), (0.01, does_not_raise()), (0.99, does_not_raise()), (1.0, out_of_range)],
)
def test_decay_range(decay: float, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        RunningBaseline(2, decay)
