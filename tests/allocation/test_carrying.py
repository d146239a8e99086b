"""What travels with the weights of a pass."""

import torch
from pytest import raises
from torch import Tensor
from torch.func import vmap
from torch.testing import assert_close

from allotment.allocation._carrying import carried, carry


def test_weights_carry_a_tensor_of_their_pass() -> None:
    note = torch.rand(4, requires_grad=True)
    weights = carry(torch.ones(3), note * 2)
    assert_close(weights, torch.ones(3))
    carried(weights).sum().backward()
    assert_close(note.grad, torch.full((4,), 2.0))


def test_runs_are_batched_over() -> None:
    def passed(x: Tensor) -> Tensor:
        return carried(carry(x * 2, x + 1))

    x = torch.rand(3, 2)
    assert_close(vmap(passed)(x), x + 1)


def test_other_tensors_are_refused() -> None:
    rule = "^`weights` should be what `weights` of the allocation returned in training, itself"
    with raises(ValueError, match=rule + r".* Found a tensor of shape \[3\] that carries nothing"):
        carried(carry(torch.ones(3), torch.ones(3)).clone())
