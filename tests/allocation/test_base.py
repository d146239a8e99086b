"""The interface of every way of sharing, tried with some that the library does not have."""

import torch
from pytest import raises
from torch.func import vmap
from torch.testing import assert_close

from allotment.allocation import Allocation, SharedBottom, row
from tests.allocation.made_up import ByExample, Shares


def test_an_allocation_that_lacks_a_method_cannot_be_made() -> None:
    class Half(Allocation):
        """Says nothing of its weights."""

    with raises(TypeError, match="abstract"):
        Half(2, 3)  # type: ignore[abstract]


def test_batches_are_counted_where_that_was_asked_for() -> None:
    counting, other = Shares(2, 3), ByExample(2, 3, 4)
    for allocation in (counting, other):
        allocation.advance()
        allocation.advance()
    assert counting.n_batches is not None and counting.n_batches.item() == 2
    assert other.n_batches is None
    assert "n_batches" in counting.state_dict()
    assert "n_batches" not in other.state_dict()


def test_parameters_at_any_depth_make_it_learnt() -> None:
    shares = Shares(2, 3)
    outer = SharedBottom(2, 3)
    outer.add_module("inner", shares)
    assert shares.is_learnt and outer.is_learnt
    shares.scores.requires_grad_(False)
    assert not shares.is_learnt and not outer.is_learnt


def test_a_method_adds_nothing_to_the_loss_unless_it_says_so() -> None:
    loss, weights = torch.tensor(3.0), torch.tensor([0.5, 0.5])
    assert SharedBottom(2, 2).auxiliary_loss(0, loss, weights) is None
    assert_close(Shares(2, 2).auxiliary_loss(0, loss, weights), torch.tensor(0.5))


def test_a_row_is_found_by_a_number_and_by_tensors_of_several_runs() -> None:
    table = torch.randn(4, 3)
    for task in range(4):
        assert_close(row(table, torch.tensor(task)), row(table, task), rtol=0, atol=0)
    tasks = torch.tensor([3, 0, 3])
    assert_close(vmap(row, in_dims=(None, 0))(table, tasks), table[tasks], rtol=0, atol=0)
