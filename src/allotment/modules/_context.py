"""What travels through a forward pass beside the inputs: the task, and the draws of the pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .._checks import check_at_least, check_whole

if TYPE_CHECKING:
    from ..allocation import Allocation


class Noise(NamedTuple):
    """The random draws of one training pass, uniform on (0, 1).

    The modular layers' draws lie one after another, in the layers' order: those that are made once
    a batch, and those that are made for each example.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(2)], al.GumbelMatrix(2, 2))
    >>> network, x = al.MultiTaskNetwork(None, [layer], task_names=["a", "b"]), torch.randn(5, 8)
    >>> noise = al.Noise(gates=torch.rand(layer.allocation.n_noise))
    >>> bool((network(x, "a", noise=noise) == network(x, "a", noise=noise)).all())
    True
    """

    gates: Tensor | None = None  # [N]
    dropout: Tensor | None = None  # [B, D], for the features that enter the head
    examples: Tensor | None = None  # [B, N]

    @property
    def dims(self) -> Any:
        """Where `vmap` finds the dimension to batch over: in front."""
        return Noise(*(None if part is None else 0 for part in self))  # type: ignore[arg-type]


class Used(NamedTuple):
    """The weights that an allocation gave in a pass."""

    allocation: "Allocation"
    weights: Tensor


@dataclass(frozen=True)
class Pass:
    """One forward pass.

    Attributes:
        task: The task's index, an int or a tensor.
        noise: Its draws; where some are missing they come from torch's generator.
        used: Filled on the way: the weights of each modular layer, in the order of calls.
    """

    task: int | Tensor
    noise: Noise = Noise()
    used: list[Used] = field(default_factory=list)

    def charges(
        self, loss: Tensor, each: Tensor | None = None, share: Tensor | float = 1.0
    ) -> list[Tensor]:
        """Returns what each allocation adds to the task's loss, of those that add something.

        ``each`` is the loss of each example, ``[B]``, for those that reward examples. What they add
        is a mean over these, and is multiplied by their ``share`` of a larger batch.
        """
        found = []
        for allocation, weights in self.used:
            if each is None or not allocation.rewards_examples:
                extra = allocation.auxiliary_loss(self.task, loss, weights)
            else:
                extra = allocation.auxiliary_loss(self.task, each, weights)
                extra = None if extra is None else extra * share
            found.append(extra)
        return [extra for extra in found if extra is not None]

    def auxiliary_loss(self, loss: Tensor, each: Tensor | None = None) -> Tensor:
        """Returns what allocations add to the task's loss in all, 0 where none adds anything.

        ``each`` is the loss of each example, ``[B]``, which `ScoreFunctionByExample` learns by.
        """
        return sum(self.charges(loss, each), torch.zeros_like(loss))

    @torch.no_grad()
    def observe(self, loss: Tensor) -> None:
        """Tells the task's loss to each allocation, for those that learn by reward."""
        for allocation in dict.fromkeys(used.allocation for used in self.used):
            allocation.observe(self.task, loss.detach())

    def count_batch(self) -> None:
        """Tells each allocation in training that a batch has passed, once for all its calls."""
        for allocation in dict.fromkeys(used.allocation for used in self.used):
            if allocation.training:
                allocation.advance()


# The modules between the outermost one and a modular layer need not pass anything on.
_current: ContextVar[Pass | None] = ContextVar("_current", default=None)


def current_pass() -> Pass | None:
    """Returns the pass that is under way, if any."""
    return _current.get()


def in_backward_pass() -> str:
    """Returns what is likely wrong where a layer is called in a backward pass."""
    if torch._C._current_graph_task_id() == -1:
        return ""
    return (
        " Activation checkpointing calls the layer again in the backward pass: give it "
        "`partial(contextvars.copy_context().run, block)` in place of `block`."
    )


@contextmanager
def opened(new: Pass) -> Iterator[Pass]:
    """Lets modular layers find a pass, for a while."""
    token = _current.set(new)
    try:
        yield new
    finally:
        _current.reset(token)


@contextmanager
def for_task(task: int) -> Iterator[Pass]:
    """Lets modular layers compute for a task, for a while, where no network tells them.

    >>> from torch import nn, ones
    >>> from allotment import FixedMatrix, ModularLayer, for_task
    >>> layer = ModularLayer([nn.Identity(), nn.Flatten()], FixedMatrix([[1, 0], [1, 1]]))
    >>> with for_task(0):
    ...     layer(ones(1, 2))
    tensor([[1., 1.]])

    Args:
        task: The task's index, a number or a tensor.
    """
    check_whole("task", task)
    check_at_least("task", task, 0)  # a negative one would count from the end
    with opened(Pass(int(task))) as new:
        yield new
    new.count_batch()
