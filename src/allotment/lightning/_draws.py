"""The random draws of a step: functions of the seed and the step, and the same in all processes."""

import torch
from torch import Tensor, nn

from .._engine import noise_widths, uniform
from .._streams import stream
from ..modules import Noise, TaskNetwork, are_linear
from ..settings import ROUNDS_PER_BLOCK
from ._batch import Place


class Draws:
    """What the passes of a network draw, task batch by task batch.

    Gates have the draws of `fit`. Draws for examples, of gates that see them and of dropout before
    linear heads, are made for a whole batch, and a process takes those of its part.
    """

    def __init__(self, network: TaskNetwork, seed: int) -> None:
        self._seed = seed
        self._n_batches = ROUNDS_PER_BLOCK * network.n_tasks  # of a block
        self._widths = noise_widths(network)
        heads = list(network.heads) if isinstance(network.heads, nn.ModuleList) else []
        if network.dropout and heads and are_linear(heads):
            self._widths["dropout"] = heads[0].in_features
        self._block: tuple[int, Tensor] | None = None  # its number, and the gates' draws in it

    def noise(self, batch: int, place: Place, device: torch.device) -> Noise:
        """Returns the draws of a task batch, counted from 0, for the part at ``place``."""
        found = {
            use: self._gates(batch) if use == "gates" else self._examples(use, batch, width, place)
            for use, width in self._widths.items()
            if width
        }
        return Noise(**{use: draws.to(device, non_blocking=True) for use, draws in found.items()})

    def _gates(self, batch: int) -> Tensor:
        number, place = divmod(batch, self._n_batches)
        if self._block is None or self._block[0] != number:
            empty = torch.empty(self._n_batches, self._widths["gates"])
            self._block = (number, uniform(empty, stream(self._seed, "gates", number)))
        return self._block[1][place]

    def _examples(self, use: str, batch: int, width: int, place: Place) -> Tensor:
        generator = stream(self._seed, f"{use}/0", batch)
        return uniform(torch.empty(place.total, width), generator)[place.start : place.stop]
