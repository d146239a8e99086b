"""Masks of channels: drawn once, never learnt, and a part of the pass."""

from contextlib import AbstractContextManager
from contextlib import nullcontext as does_not_raise

import torch
from pytest import mark, raises
from torch import nn
from torch.testing import assert_close

from allotment import extract, for_task
from allotment.allocation import SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork, TaskMask


@mark.parametrize("shape", [(5, 6), (5, 6, 3), (5, 6, 3, 2)])
def test_channels_are_multiplied_by_the_mask_of_the_task(shape: tuple[int, ...]) -> None:
    mask, x = TaskMask(3, 6), torch.randn(shape)
    for task in range(3):
        with for_task(task):
            y = mask(x)
        for channel in range(6):
            assert torch.equal(y[:, channel], x[:, channel] * mask.mask[task, channel])


@mark.parametrize(
    ("share", "n_kept"), [(0.01, 1), (0.1, 1), (0.3, 3), (0.5, 5), (0.96, 10), (1.0, 10)]
)
def test_each_task_keeps_its_share(share: float, n_kept: int) -> None:
    mask = TaskMask(50, 10, share=share).mask
    assert torch.equal(mask.sum(1), torch.full((50,), float(n_kept)))
    assert set(mask.unique().tolist()) <= {0.0, 1.0}


def test_every_channel_is_as_likely_to_be_kept_and_tasks_draw_apart() -> None:
    n, share = 4000, 0.25
    mask = TaskMask(n, 8, share=share).mask
    standard_error = (share * (1 - share) / n) ** 0.5
    assert_close(mask.mean(0), torch.full((8,), share), rtol=0, atol=4 * standard_error)
    # Of 28 pairs of channels, so two tasks in a row have the same with p = 1 / 28.
    p, n_pairs = 1 / 28, n // 2
    alike = (mask[0::2] == mask[1::2]).all(1).to(torch.float32).mean()
    assert_close(alike.item(), p, rtol=0, atol=4 * (p * (1 - p) / n_pairs) ** 0.5)


def test_masks_are_drawn_from_torch_s_generator() -> None:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(TaskMask(5, 20).mask)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_no_gradient_passes_a_channel_that_is_left_out() -> None:
    mask, x = TaskMask(2, 6), torch.randn(5, 6, requires_grad=True)
    with for_task(1):
        mask(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, mask.mask[1].expand(5, 6))


def test_masks_are_no_parameters() -> None:
    mask = TaskMask(2, 6)
    assert not list(mask.parameters())
    assert list(mask.state_dict()) == ["mask"]


def a_network() -> MultiTaskNetwork:
    layer = ModularLayer([nn.Linear(3, 6) for _ in range(2)], SharedBottom(2, 2))
    return MultiTaskNetwork(None, [layer, TaskMask(2, 6)], [nn.Linear(6, 1) for _ in range(2)])


def test_a_task_is_extracted_with_its_mask_as_a_constant() -> None:
    network, x = a_network().eval(), torch.randn(4, 3)
    for task in range(2):
        alone = extract(network, task)
        assert_close(alone(x), network(x, task), rtol=0, atol=0)
        assert not any(isinstance(part, TaskMask) for part in alone.modules())


def test_a_mask_needs_a_task() -> None:
    with raises(ValueError, match=r"^`TaskMask` should be called by a network, .* Found no task"):
        TaskMask(2, 6)(torch.randn(5, 6))


@mark.parametrize("shape", [(5, 4), (6,), (5, 3, 6)])
def test_other_channels_are_refused(shape: tuple[int, ...]) -> None:
    found = str(list(shape)).replace("[", r"\[")
    with (
        for_task(0),
        raises(
            ValueError, match=rf"^`x` should be of shape \[B, 6, \.\.\.\].* Found shape {found}"
        ),
    ):
        TaskMask(2, 6)(torch.randn(shape))


out_of_range = raises(ValueError, match=r"`share` should be in \(0, 1\]")


@mark.parametrize(
    ("share", "expectation"),
    [
        (0.0, out_of_range),
        (-0.5, out_of_range),
        (0.01, does_not_raise()),
        (1.0, does_not_raise()),
        (1.01, out_of_range),
    ],
)
def test_shares(share: float, expectation: AbstractContextManager[object]) -> None:
    with expectation:
        TaskMask(2, 6, share=share)


@mark.parametrize(("sizes", "name"), [((0, 4), "n_tasks"), ((2, 0), "n_channels")])
def test_counts(sizes: tuple[int, int], name: str) -> None:
    with raises(ValueError, match=f"`{name}` should be at least 1"):
        TaskMask(*sizes)
