"""Linear heads as one table."""

import torch
from pytest import mark, param
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from allotment.modules import HeadTable
from allotment.modules._heads import are_linear

WIDTHS = [2, 5, 3]


def heads(widths: list[int], *, bias: bool = True) -> list[nn.Linear]:
    return [nn.Linear(4, width, bias=bias) for width in widths]


@mark.parametrize("bias", [True, False])
@mark.parametrize("widths", [[3, 3, 3], WIDTHS], ids=str)
@mark.parametrize("as_tensor", [True, False])
def test_a_table_gives_what_each_head_gives(widths: list[int], bias: bool, as_tensor: bool) -> None:
    made = heads(widths, bias=bias)
    table = HeadTable(made)
    x = torch.randn(6, 4)
    for task, head in enumerate(made):
        index: int | Tensor = torch.tensor(task) if as_tensor else task
        found = table(x, index)
        assert_close(found[:, : head.out_features], head(x))
        assert (found[:, head.out_features :] < -1e8).all()


def test_absent_classes_change_neither_loss_nor_gradient_nor_prediction() -> None:
    made = heads(WIDTHS)
    table = HeadTable(made)
    x, labels = torch.randn(6, 4, requires_grad=True), torch.tensor([0, 1, 1, 0, 1, 0])
    loss = F.cross_entropy(table(x, 0), labels)
    expected = F.cross_entropy(made[0](x), labels)
    assert_close(loss, expected)
    (by_table,) = torch.autograd.grad(loss, x, retain_graph=True)
    (by_head,) = torch.autograd.grad(expected, x, retain_graph=True)
    assert_close(by_table, by_head)
    assert (table(x, 0).argmax(dim=1) == made[0](x).argmax(dim=1)).all()
    loss.backward()
    expected.backward()
    assert isinstance(table.weight.grad, Tensor)
    assert_close(table.weight.grad[0, :2], made[0].weight.grad)
    assert (table.weight.grad[0, 2:] == 0).all() and (table.weight.grad[1:] == 0).all()


def test_a_table_is_a_copy() -> None:
    made = heads([3, 3])
    table = HeadTable(made)
    before = table.weight.detach().clone()
    nn.init.zeros_(made[0].weight)
    assert_close(table.weight.detach(), before)


@mark.parametrize(
    ("made", "expected"),
    [
        param(heads(WIDTHS), True, id="different widths out"),
        param(heads([2, 2], bias=False), True, id="no biases"),
        param([*heads([2]), *heads([2], bias=False)], False, id="some biases"),
        param([nn.Linear(4, 2), nn.Linear(5, 2)], False, id="different widths in"),
        param([nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 2))], False, id="not linear"),
        param([*heads([2]), heads([2])[0].requires_grad_(False)], False, id="one frozen"),
        param([head.requires_grad_(False) for head in heads([2, 2])], True, id="all frozen"),
    ],
)
def test_which_heads_make_a_table(made: list[nn.Module], expected: bool) -> None:
    assert are_linear(made) is expected
