"""The random draws of a step: functions of the seed and the step, and the same in all processes."""

import torch
from torch import Tensor, nn

from .._engine import noise_widths, uniform
from .._streams import stream
from ..modules import Noise, TaskNetwork, are_linear
from ..settings import ROUNDS_PER_BLOCK, TrainingSettings
from ._batch import Place


class Draws:
    """What the passes of a network draw, task batch by task batch.

    Gates and augmentation have the draws of `fit`. Other draws for examples, of gates that see them
    and of dropout before linear heads, are made for a whole batch, and a process takes its part.
    """

    def __init__(
        self, network: TaskNetwork, settings: TrainingSettings, seed: int, n_augmentation: int
    ) -> None:
        self._seed = seed
        self._shape = (settings.batch_size, n_augmentation)  # of one batch's augmentation
        self._n_batches = ROUNDS_PER_BLOCK * network.n_tasks  # of a block
        self._widths = noise_widths(network)
        heads = list(network.heads) if isinstance(network.heads, nn.ModuleList) else []
        if network.dropout and heads and are_linear(heads):
            self._widths["dropout"] = heads[0].in_features
        self._blocks: dict[str, tuple[int, Tensor]] = {}  # by use: its number, and the draws in it

    def noise(self, batch: int, place: Place, device: torch.device) -> Noise:
        """Returns the draws of a task batch, counted from 0, for the part at ``place``."""
        found = {
            use: self._of_block(use, batch, (width,))
            if use == "gates"
            else self._examples(use, batch, width, place)
            for use, width in self._widths.items()
            if width
        }
        return Noise(**{use: draws.to(device, non_blocking=True) for use, draws in found.items()})

    def augmentation(self, batch: int, place: Place, device: torch.device) -> Tensor:
        """Returns the draws for images of the part at ``place``, those of `fit`."""
        draws = self._of_block("augmentation", batch, self._shape)[place.start : place.stop]
        return draws.to(device, non_blocking=True)

    def _of_block(self, use: str, batch: int, shape: tuple[int, ...]) -> Tensor:
        """Returns a batch's part of draws that are made for ten rounds at a time."""
        number, place = divmod(batch, self._n_batches)
        if use not in self._blocks or self._blocks[use][0] != number:
            empty = torch.empty(self._n_batches, *shape)
            self._blocks[use] = (number, uniform(empty, stream(self._seed, use, number)))
        return self._blocks[use][1][place]

    def _examples(self, use: str, batch: int, width: int, place: Place) -> Tensor:
        generator = stream(self._seed, f"{use}/0", batch)
        return uniform(torch.empty(place.total, width), generator)[place.start : place.stop]
