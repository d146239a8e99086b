"""Adam in pieces is torch's Adam."""

from typing import Any

import torch
from pytest import mark, param
from torch import Tensor
from torch.testing import assert_close

from allotment.training._adam import LEAST_NUMBERS, N_PIECES, FlatAdam

# Fewer numbers than a piece has at least, some pieces, and more than pieces of that size hold.
SHAPES = [
    param([(3, 7)], id="small"),
    param([(3, 5), (2, 3 * LEAST_NUMBERS + 1)], id="unequal"),
    param([(2, N_PIECES * LEAST_NUMBERS), (1, 9)], id="large"),
]


def groups(flats: list[Tensor], rate: float | Tensor) -> list[dict[str, Any]]:
    decays = [0.1 * (number == 0) for number in range(len(flats))]
    return [
        {"params": [flat], "lr": rate, "weight_decay": decay}
        for flat, decay in zip(flats, decays, strict=True)
    ] + [{"params": [torch.ones(2, 3), torch.zeros(4)], "lr": rate}]


@mark.parametrize("shapes", SHAPES)
@mark.parametrize("rate", [0.01, torch.tensor(0.01)], ids=["number", "tensor"])
def test_steps_in_pieces_are_steps(shapes: list[tuple[int, int]], rate: float | Tensor) -> None:
    flats = [torch.randn(shape) for shape in shapes]
    both = [groups([flat.clone() for flat in flats], rate) for _ in range(2)]
    ours = FlatAdam(both[0], fused=True)
    plain = torch.optim.Adam(both[1], fused=True)
    for _ in range(4):
        for a, b in zip(ours.param_groups, plain.param_groups, strict=True):
            for flat, same in zip(a["params"], b["params"], strict=True):
                flat.grad = torch.randn_like(flat)
                same.grad = flat.grad.clone()
            ours.step_in_pieces(a)
        plain.step()
    for a, b in zip(ours.param_groups, plain.param_groups, strict=True):
        for flat, same in zip(a["params"], b["params"], strict=True):
            assert_close(flat, same)
            assert_close(ours.state[flat], plain.state[same])
            assert float(ours.state[flat]["step"]) == 4.0
