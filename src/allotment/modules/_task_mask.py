"""Channels that are left out for a task, chosen once and at random."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .._checks import check_count, check_fraction
from ..allocation import row
from ._context import current_pass


class TaskMask(nn.Module):
    """Multiplies channels by a mask of the task's own, of zeros and ones.

    The layer of task routing (Strezoski, van Noord and Worring 2019, "Many Task Learning With Task
    Routing"). As published, each task keeps a share of the channels, drawn at random when the
    layer is made, and masks are never learnt. Here they are a buffer, so that no optimizer changes
    or decays them, and the product is a part of the pass, so that no gradient reaches a channel
    through a task that does not have it.

    >>> from allotment import for_task
    >>> mask = TaskMask(2, 4, share=0.5)
    >>> with for_task(1):
    ...     int(mask(torch.ones(1, 4)).sum())
    2

    Args:
        n_tasks: Number of tasks.
        n_channels: Channels or features, which are the second dimension of the input.
        share: Which part of the channels a task keeps, rounded to at least one of them. At 1 all
            tasks have all; the smaller it is, the less two tasks have in common.
    """

    mask: Tensor  # [T, n_channels]

    def __init__(self, n_tasks: int, n_channels: int, *, share: float = 0.5) -> None:
        super().__init__()
        for name, n in (("n_tasks", n_tasks), ("n_channels", n_channels)):
            check_count(name, n)
        check_fraction("share", share)
        self.n_tasks = n_tasks
        self.n_channels = n_channels
        self.share = share
        self.register_buffer("mask", self._drawn(n_tasks))

    def _drawn(self, n_tasks: int) -> Tensor:
        n_kept = max(1, round(self.share * self.n_channels))
        places = torch.rand(n_tasks, self.n_channels).argsort(dim=1)[:, :n_kept]
        return torch.zeros(n_tasks, self.n_channels).scatter_(1, places, 1.0)

    def add_task(self, like: int | None) -> None:
        """Adds a task behind the others, with the mask of another, or with one that is drawn."""
        own = self._drawn(1).to(self.mask) if like is None else self.mask[like].unsqueeze(0)
        self.mask = torch.cat([self.mask, own])
        self.n_tasks += 1

    def keep_tasks(self, tasks: Sequence[int]) -> None:
        """Takes these tasks alone, in this order."""
        self.mask, self.n_tasks = self.mask[list(tasks)].clone(), len(tasks)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the channels that the current task keeps, and zeros for the others."""
        running = current_pass()
        if running is None:
            raise ValueError(
                "`TaskMask` should be called by a network, or within `for_task(task)`. "
                "Found no task."
            )
        return masked(x, row(self.mask, running.task))

    def module_of(self, task: int) -> "ChannelMask":
        """Returns the mask of one task, as a module that needs no task."""
        return ChannelMask(self.mask[task].clone())

    def extra_repr(self) -> str:
        return f"n_tasks={self.n_tasks}, n_channels={self.n_channels}, share={self.share}"


class ChannelMask(nn.Module):
    """Multiplies channels by constants."""

    mask: Tensor  # [n_channels]

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the channels that are kept, and zeros for the others."""
        return masked(x, self.mask)


def masked(x: Tensor, mask: Tensor) -> Tensor:
    """Returns ``x``, shape ``[B, n_channels, ...]``, times a number for each channel."""
    if x.ndim < 2 or x.shape[1] != len(mask):
        raise ValueError(
            f"`x` should be of shape [B, {len(mask)}, ...], as `n_channels = {len(mask)}` says. "
            f"Found shape {list(x.shape)}."
        )
    return x * mask.to(x.dtype).view(-1, *[1] * (x.ndim - 2))
