"""Adam in pieces is torch's Adam."""

from typing import Any

import torch
from pytest import mark, param
from torch import Tensor
from torch.testing import assert_close

from allotment._engine._adam import LEAST_NUMBERS, N_PIECES, FlatAdam, piece_size

# Of a group: fewer numbers than a piece has at least, unequally many pieces, and more pieces of the
# least size than there may be.
SHAPES = [
    param([(3, 7)], id="small"),
    param([(3, 5), (2, 3 * LEAST_NUMBERS + 1), (2, 3)], id="unequal"),
    param([(2, N_PIECES * LEAST_NUMBERS), (1, 9)], id="large"),
]


def groups(flats: list[Tensor], rate: float | Tensor) -> list[dict[str, Any]]:
    """Returns the tensors as one group, and one more group beside it."""
    return [
        {"params": [flat.clone() for flat in flats], "lr": rate, "weight_decay": 0.1},
        {"params": [torch.ones(2, 3)], "lr": 2 * rate},
    ]


@mark.parametrize("shapes", SHAPES)
@mark.parametrize("rate", [0.01, torch.tensor(0.01)], ids=["number", "tensor"])
def test_steps_in_pieces_are_steps(shapes: list[tuple[int, int]], rate: float | Tensor) -> None:
    flats = [torch.randn(shape) for shape in shapes]
    ours = FlatAdam(groups(flats, rate), fused=True)
    plain = torch.optim.Adam(groups(flats, rate), fused=True)
    for step in range(4):
        for own, same in zip(ours.param_groups, plain.param_groups, strict=True):
            for number, (flat, other) in enumerate(zip(own["params"], same["params"], strict=True)):
                flat.grad = torch.randn_like(flat)
                other.grad = flat.grad.clone()
                if step == 1:  # tensors at different steps, each with pieces of its own
                    for optimizer, tensor in ((ours, flat), (plain, other)):
                        optimizer.state[tensor]["step"] += 10 * number
            ours.step_in_pieces(own)
        plain.step()
    for own, same in zip(ours.param_groups, plain.param_groups, strict=True):
        for flat, other in zip(own["params"], same["params"], strict=True):
            assert_close(flat, other)
            assert_close(ours.state[flat], plain.state[other])


@mark.parametrize(
    ("n_numbers", "expected"),
    [
        param([10, 5], 2_048, id="never too small"),
        param([600_000], 8_336, id="so many in all, in whole fours"),
        param([2_300_000, 50_000], 32_640, id="half of what the kernel takes"),
        param([4_000_000, 50_000], 4_000_000, id="large tensors stay whole"),
    ],
)
def test_how_large_a_piece_is(n_numbers: list[int], expected: int) -> None:
    assert piece_size(n_numbers) == expected


def test_on_a_cpu_a_step_is_torchs_own() -> None:
    both = [torch.ones(2, 5000) for _ in range(2)]
    for flat in both:
        flat.grad = torch.linspace(-1, 1, 10_000).view(2, 5000)
    FlatAdam([{"params": both[:1]}], fused=True).step()
    torch.optim.Adam([{"params": both[1:]}], fused=True).step()
    assert torch.equal(*both)
    assert not torch.equal(both[0], torch.ones(2, 5000))
