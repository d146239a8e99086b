"""What one step is computed from, and the draws and examples of a block of steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..modules import Noise


class Batch(NamedTuple):
    """What one step of ``R`` runs is computed from; every tensor has the runs in front.

    In a joint step the tasks come second, ``[R, T, ...]``. Where batches are fetched one by one,
    inputs, targets and the draws for examples are lists in place of tensors.
    """

    tasks: Tensor  # [R]
    inputs: Tensor  # [R, B, ...]
    targets: tuple[Tensor, ...]  # [R, B, ...] of every spec; the task's own counts
    noise: Noise  # [R, N], [R, B, D] and [R, B, N]
    # The rest of a batch that is computed in pieces; or one batch, on which allocations learn.
    further: tuple[Any, ...] = ()

    def part(self, index: int, task: int | Tensor, shares_inputs: bool = False) -> tuple[Any, ...]:
        """Returns the arguments of one run, or of one task in a run."""
        targets = tuple(part[index] for part in self.targets)
        noise = Noise(*(None if part is None else part[index] for part in self.noise))
        return task, self.inputs if shares_inputs else self.inputs[index], targets, noise

    def in_pieces(self, n: int, shares_inputs: bool) -> "Batch":
        """Returns it as the first of ``n`` pieces, with the rest beside it."""
        dim = self.tasks.ndim  # of the examples, behind runs and the tasks of a joint step

        def cut(part: Tensor | None) -> Sequence[Any]:
            return [None] * n if part is None else part.chunk(n, dim)

        inputs = self.inputs.chunk(n, 1) if shares_inputs else cut(self.inputs)
        targets = zip(*map(cut, self.targets), strict=True)
        dropout, examples = cut(self.noise.dropout), cut(self.noise.examples)
        pieces = [
            Batch(self.tasks, x, y, Noise(self.noise.gates, features, own))
            for x, y, features, own in zip(inputs, targets, dropout, examples, strict=True)
        ]
        return pieces[0]._replace(further=tuple(pieces[1:]))


@dataclass(frozen=True)
class Block:
    """What ``S`` steps of ``R`` runs need; a step takes one entry of each tensor."""

    tasks: Tensor  # [S, R]
    noise: Mapping[str, Tensor]  # by use, uniform: [S, R, B, N], and for gates [S, R, N]
    rows: Tensor | None = None  # [S, R, B], rows of the dataset
    kinds: Tensor | None = None  # [S, R], kinds of the dataset
    inputs: Tensor | None = None  # [S, R, B, ...], generated
    targets: tuple[Tensor, ...] = ()  # [S, R, B, ...] of every spec; the task's own counts
    held_out: "Block | None" = None  # batches of the same tasks, on which allocations learn

    def to(self, device: torch.device) -> "Block":
        """Returns the block on a device."""
        if device.type == "cpu":
            return self
        named = {k: t.to(device) for k, t in vars(self).items() if isinstance(t, Tensor)}
        noise = {use: t.to(device) for use, t in self.noise.items()}
        targets = tuple(t.to(device) for t in self.targets)
        held_out = None if self.held_out is None else self.held_out.to(device)
        return replace(self, **named, noise=noise, targets=targets, held_out=held_out)

    def tensors(self) -> Iterator[Tensor]:
        """Yields all that is there, in a fixed order."""
        yield from (tensor for tensor in vars(self).values() if isinstance(tensor, Tensor))
        yield from self.noise.values()
        yield from self.targets
        yield from () if self.held_out is None else self.held_out.tensors()
